"""A network in training."""

import pytest
import torch

from kspr.models.build import build_network
from kspr.train.distributed import Alone
from kspr.train.learner import Learner
from kspr.train.settings import TrainSettings


def learner(**changes):
    network = build_network("mlp", 3, in_shape=(4,), seed=0)
    settings = TrainSettings.from_preset("cpu", **changes)
    return Learner(network, settings, 100, Alone(torch.device("cpu")))


def step(trained, seed):
    batch = torch.rand(8, 4, generator=torch.Generator().manual_seed(seed))
    trained.learn(trained.logits(batch).square().mean())


def weights(trained):
    return torch.cat([parameter.detach().flatten() for parameter in trained.network.parameters()])


def test_a_copy_goes_its_own_way():
    first, second, alone = learner(), learner(), learner()
    for trained in (first, alone):
        trained.start_training()
        step(trained, 1)
    second.start_training()
    second.load(first.state())
    assert torch.equal(weights(first), weights(second))
    step(second, 2)
    step(first, 3)
    step(alone, 3)
    assert torch.equal(weights(first), weights(alone))
    assert not torch.equal(weights(first), weights(second))


def test_the_rate_falls_to_zero():
    trained = learner(learning_rate=0.1)
    trained.start_training()
    assert trained.rate == pytest.approx(0.1)
    for k in range(100):
        step(trained, k)
    assert trained.rate == 0.0


def test_the_average_follows_at_most_a_tenth_of_the_run_behind():
    trained = learner(ema_decay=0.9999)
    trained.start_training()
    began = weights(trained)
    for k in range(100):
        step(trained, k)
    average = torch.cat([p.flatten() for p in trained.average.module.parameters()])
    assert (average - weights(trained)).norm() < 0.3 * (began - weights(trained)).norm()
