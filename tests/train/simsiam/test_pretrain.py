"""SimSiam: it learns, it stops where it should, and it goes on where it stopped."""

import io
import warnings

import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from kspr.errors import InputError
from kspr.models.build import build_network
from kspr.models.network import BodyNetwork, Network, Outputs, seeded
from kspr.train.augment import ViewSettings
from kspr.train.simsiam import SimSiamSettings, pretrain

QUICK = SimSiamSettings(epochs=3, batch_size=64, width=32, bottleneck=8, readout_every=1)


class Held:
    def __init__(self, images):
        self.images = images

    def __len__(self):
        return len(self.images)

    def take(self, index):
        return self.images[index]


@pytest.fixture(scope="module")
def digits():
    images, labels = load_digits(return_X_y=True)
    pixels = torch.tensor(images * 15.9, dtype=torch.uint8).view(-1, 1, 8, 8)
    return Held(pixels), labels


@pytest.fixture(scope="module")
def few(digits):
    return Held(digits[0].images[:200])


def small(seed=0):
    return build_network("resnet_small", 10, in_shape=(1, 8, 8), seed=seed)


def stored(state):
    """Return `state` as a file gives it back, without pickles."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


def same_weights(first, second):
    pairs = zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def tiny():
    layers = (nn.Flatten(), nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 64))
    with seeded(0):
        return BodyNetwork(nn.Sequential(*layers), 64, 10)


def test_views_of_an_image_come_together_and_images_stay_apart(digits):
    """The loss starts at 0 and falls below -0.5, the spread stays above 0.9, for this seed.

    Outputs that become one point would have a loss of -1 and a spread of 0.
    """
    inputs, labels = digits
    # Digits must not be mirrored, and a crop must keep most of one.
    views = ViewSettings(area=(0.5, 1.0), flip=False)
    settings = SimSiamSettings(
        epochs=10, rate=0.3, batch_size=128, width=64, bottleneck=16, views=views, readout_every=4
    )
    result = pretrain(tiny(), inputs, settings, seed=0, labels=labels)
    assert result.epochs[0].loss > -0.2
    assert result.epochs[-1].loss < -0.5
    assert result.epochs[-1].spread > 0.9
    read = [epoch.neighbours_right for epoch in result.epochs]
    assert [epoch for epoch, share in enumerate(read) if share is not None] == [3, 7, 9]
    assert read[-1] > 0.8


def test_a_run_that_goes_on_reaches_the_same_bits(few):
    whole, states = small(), []
    result = pretrain(whole, few, QUICK, seed=3, on_epoch=states.append)
    assert [len(state["history"]) for state in states] == [1, 2, 3]
    other = small(seed=9)
    again = pretrain(other, few, QUICK, seed=3, state=stored(states[0]))
    assert again == result
    assert same_weights(other, whole)


def test_a_finished_state_is_only_loaded(few):
    first, states = small(), []
    result = pretrain(first, few, QUICK, seed=3, on_epoch=states.append)
    second = small(seed=9)
    assert pretrain(second, few, QUICK, seed=3, state=states[-1]) == result
    assert same_weights(first, second)


def test_labels_only_look_on_and_torchs_own_state_stays(few):
    before = torch.get_rng_state()
    seeing, blind, other = small(), small(), small()
    result = pretrain(seeing, few, QUICK, seed=1, labels=torch.arange(200) % 3)
    pretrain(blind, few, QUICK, seed=1)
    pretrain(other, few, QUICK, seed=2)
    assert torch.equal(torch.get_rng_state(), before)
    assert same_weights(seeing, blind)
    assert not same_weights(blind, other)
    assert all(0 <= epoch.neighbours_right <= 1 for epoch in result.epochs)


def test_the_classifier_is_left_alone(few):
    network, fresh = small(), small()
    pretrain(network, few, QUICK, seed=1)
    assert torch.equal(network.head.weight, fresh.head.weight)
    assert not torch.equal(network.body.conv1.weight, fresh.body.conv1.weight)


class Constant(Network):
    """Gives every image the same features."""

    def __init__(self):
        super().__init__(4, 2)
        self.value = nn.Parameter(torch.ones(4))

    def forward(self, x):
        features = self.value.expand(len(x), 4)
        return Outputs(features, features[:, :2])


def test_collapse_is_warned_of_once_with_a_way_out(few):
    with pytest.warns(UserWarning, match="SimSiam collapsed in epoch 1: .* Lower the rate") as said:
        result = pretrain(Constant(), few, QUICK, seed=0)
    assert len(said) == 1
    assert result.collapsed


def test_a_healthy_run_warns_of_nothing(few):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not pretrain(small(), few, QUICK, seed=0).collapsed


def test_fewer_images_than_a_batch_are_one_batch(few):
    network = small()
    result = pretrain(network, Held(few.images[:10]), QUICK, seed=0)
    assert len(result.epochs) == 3


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"inputs": Held(torch.zeros(1, 1, 8, 8))}, "inputs must hold at least 2 images, got 1"),
        ({"labels": [0, 1]}, "inputs hold 200 images but labels 2"),
        ({"state": {"run": {"images": 7}}}, "state is of another run: its images is 7"),
    ],
)
def test_what_cannot_work_is_said_in_one_sentence(few, change, says):
    given = {"inputs": few, "settings": QUICK, "seed": 0, **change}
    with pytest.raises(InputError, match=says):
        pretrain(small(), **given)
