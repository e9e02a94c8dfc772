"""One epoch of SimSiam, and its monitor."""

import math

import pytest
import torch

from kspr.models.build import build_network
from kspr.train.inputs import Images
from kspr.train.simsiam import Pretraining, SimSiamSettings, nearest_labels
from tests.train.digits import digit_images

QUICK = SimSiamSettings(epochs=3, batch_size=64, width=32, bottleneck=8, readout_every=2)


@pytest.fixture
def pretraining():
    pixels, labels = digit_images(200)
    network = build_network("resnet_small", 10, in_shape=(1, 8, 8))
    return Pretraining(network, Images(pixels), QUICK, 3, labels)


def advance():
    """Stand for a progress bar."""


def test_the_predictors_rate_is_fixed_and_the_others_fall(pretraining):
    rates = []
    for _ in range(QUICK.epochs):
        pretraining.learn(advance)
        groups = pretraining.state()["optimizer"]["param_groups"]
        rates.append([group["lr"] for group in groups])
    base = 0.03 * 64 / 256
    assert [fixed for _, fixed in rates] == [base] * 3
    steps = [2, 5, 8]  # the last of three steps in each epoch
    expected = [base * 0.5 * (1 + math.cos(math.pi * step / 9)) for step in steps]
    assert [falling for falling, _ in rates] == pytest.approx(expected)


def test_neighbours_are_measured_every_few_epochs_and_after_the_last(pretraining):
    found = [pretraining.learn(advance).neighbours_right for _ in range(QUICK.epochs)]
    assert [share is not None for share in found] == [False, True, True]


def test_an_epoch_advances_once_per_step_and_counts_itself(pretraining):
    calls = []
    pretraining.learn(lambda: calls.append(1))
    assert len(calls) == pretraining.steps == 3
    assert pretraining.epoch == 1


def test_a_state_is_a_copy_that_further_training_does_not_change(pretraining):
    pretraining.learn(advance)
    state = pretraining.state()
    before = state["network"]["body.conv1.weight"].clone()
    pretraining.learn(advance)
    assert torch.equal(state["network"]["body.conv1.weight"], before)


def test_nearest_labels_outvote_a_wrong_one():
    points = torch.randn(400, 8, generator=torch.Generator().manual_seed(0))
    points[:, 0] += 6 * (torch.arange(400) % 2 * 2 - 1)
    labels = torch.arange(400) % 2
    noisy = torch.where(torch.arange(400) % 5 == 0, 1 - labels, labels)
    found = nearest_labels(points[100:], noisy[100:], points[:100])
    assert (found == labels[:100]).float().mean() > 0.97
