"""The learning rate and the optimiser."""

from itertools import pairwise

import pytest
import torch
from torch import nn

from kspr.errors import InputError
from kspr.train.learner import cosine_rate, make_optimizer


def test_the_rate_is_torchs_cosine_annealing():
    optimizer = make_optimizer(nn.Linear(2, 2), 0.3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40)
    for step in range(40):
        assert cosine_rate(step, 40, 0.3) == pytest.approx(schedule.get_last_lr()[0], abs=1e-9)
        optimizer.step()
        schedule.step()


def test_the_rate_rises_evenly_to_the_base_and_then_only_falls():
    rates = [cosine_rate(step, 30, 1.0, warmup=4) for step in range(31)]
    assert rates[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert all(a > b for a, b in pairwise(rates[4:]))
    assert rates[30] == 0


def test_after_the_end_nothing_is_learned_and_a_warmup_must_fit():
    assert cosine_rate(31, 30, 1.0) == 0
    assert cosine_rate(0, 0, 1.0) == 0
    with pytest.raises(InputError, match="warmup must lie between 0 and total=3, got 4"):
        cosine_rate(0, 3, 1.0, warmup=4)


def test_a_step_is_the_papers_momentum_and_decay_on_every_parameter():
    layer = nn.Linear(1, 1)
    optimizer = make_optimizer(layer, 0.1, momentum=0.9, weight_decay=0.01)
    for parameter in layer.parameters():
        nn.init.constant_(parameter, 2.0)
    value, velocity = 2.0, 0.0
    for _ in range(3):
        optimizer.zero_grad()
        (layer.weight.sum() * 3 + layer.bias.sum() * 3).backward()
        optimizer.step()
        velocity = 0.9 * velocity + (3 + 0.01 * value)
        value -= 0.1 * velocity
    assert layer.weight.item() == pytest.approx(value)
    assert layer.bias.item() == pytest.approx(value)


def test_frozen_parameters_are_left_alone():
    layer = nn.Linear(2, 2)
    layer.bias.requires_grad_(False)
    assert make_optimizer(layer, 0.1).param_groups[0]["params"] == [layer.weight]
    with pytest.raises(InputError, match="no parameter that learns"):
        make_optimizer(layer.requires_grad_(False), 0.1)
