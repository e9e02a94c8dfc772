"""SimSiam's settings, heads and loss."""

import io
import math
import warnings

import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

from kspr.errors import InputError
from kspr.models.build import build_network
from kspr.models.network import BodyNetwork, Network, Outputs, seeded
from kspr.train.augment import ViewSettings
from kspr.train.inputs import Images
from kspr.train.unlabelled import (
    Heads,
    Pretraining,
    SimSiamSettings,
    disagreement,
    spread,
)
from tests.train.digits import digit_images


def test_spread_is_one_for_a_cloud_and_nothing_for_a_point():
    cloud = torch.randn(4000, 64, generator=torch.Generator().manual_seed(0))
    assert spread(cloud).item() == pytest.approx(1, abs=0.02)
    assert spread(cloud[:1].expand(50, 64)).item() < 1e-3


def test_no_gradient_passes_to_the_target():
    predicted, target = (torch.rand(5, 3, requires_grad=True) for _ in range(2))
    loss = disagreement(predicted, target)
    loss.backward()
    expected = -functional.cosine_similarity(predicted, target).mean()
    torch.testing.assert_close(loss, expected)
    assert target.grad is None
    assert predicted.grad.abs().sum() > 0


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_the_projector_has_its_layers_and_the_predictor_two(layers):
    heads = Heads(5, width=8, bottleneck=3, layers=layers)
    linear = [part for part in heads.projector if isinstance(part, nn.Linear)]
    assert [(part.in_features, part.out_features) for part in linear] == [
        (5 if k == 0 else 8, 8) for k in range(layers)
    ]
    assert sum(isinstance(part, nn.Linear) for part in heads.predictor) == 2


@pytest.mark.parametrize("wrong", [{"epochs": -1}, {"batch_size": 1}, {"rate": 0.0}, {"width": 0}])
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(InputError, match=f"{next(iter(wrong))} must be"):
        SimSiamSettings(**wrong)


def pretrain(network, inputs, settings, *, seed, state=None, **given):
    """Pre-train on pixels as they are."""
    run = Pretraining(network, inputs, settings, seed, torch.Tensor.float)
    if state is not None:
        run.load(state)
    return run.run(**given)


QUICK = SimSiamSettings(epochs=3, batch_size=64, width=32, bottleneck=8)


@pytest.fixture
def pretraining():
    pixels, _ = digit_images(200)
    network = build_network("resnet_small", 10, in_shape=(1, 8, 8))
    return Pretraining(network, Images(pixels), QUICK, 3, torch.Tensor.float)


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


class Held:
    def __init__(self, images):
        self.images = images

    def __len__(self):
        return len(self.images)

    def take(self, index):
        return self.images[index]


@pytest.fixture(scope="module")
def digits():
    images, _ = load_digits(return_X_y=True)
    return Held(torch.tensor(images * 15.9, dtype=torch.uint8).view(-1, 1, 8, 8))


@pytest.fixture(scope="module")
def few(digits):
    return Held(digits.images[:200])


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
    # Digits must not be mirrored, and a crop must keep most of one.
    views = ViewSettings(area=(0.5, 1.0), flip=False)
    settings = SimSiamSettings(
        epochs=10, rate=0.3, batch_size=128, width=64, bottleneck=16, views=views
    )
    epochs = pretrain(tiny(), digits, settings, seed=0)
    assert epochs[0].loss > -0.2
    assert epochs[-1].loss < -0.5
    assert epochs[-1].spread > 0.9


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


def test_the_seed_decides_and_torchs_own_state_stays(few):
    before = torch.get_rng_state()
    first, again, other = small(), small(), small()
    for network, seed in ((first, 1), (again, 1), (other, 2)):
        pretrain(network, few, QUICK, seed=seed)
    assert torch.equal(torch.get_rng_state(), before)
    assert same_weights(first, again)
    assert not same_weights(again, other)


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
    assert result[-1].spread < 0.1


def test_a_healthy_run_warns_of_nothing(few):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pretrain(small(), few, QUICK, seed=0)


def test_fewer_images_than_a_batch_are_one_batch(few):
    network = small()
    result = pretrain(network, Held(few.images[:10]), QUICK, seed=0)
    assert len(result) == 3


def test_one_image_is_too_few():
    with pytest.raises(InputError, match="inputs must hold at least 2 images, got 1"):
        pretrain(small(), Held(torch.zeros(1, 1, 8, 8)), QUICK, seed=0)
