"""`fit` on images: whole networks, pre-trained, in other precisions, in presets."""

import numpy as np
import pytest
import torch

from kspr.errors import InputError
from kspr.models.device import PrecisionWarning
from kspr.models.network import BodyNetwork
from kspr.noise import symmetric
from kspr.train import TrainSettings, fit
from kspr.train.augment import normalise
from kspr.train.run_folder import read_about
from tests.train.digits import digit_images


@pytest.fixture(scope="module")
def settings():
    return TrainSettings.from_preset(
        "cifar10",
        network="resnet_small",
        epochs=3,
        warmup_epochs=1,
        pretrain_epochs=0,
        batch_size=32,
        learning_rate=0.05,
        padding=1,
        flip=False,
        selector="default",
        selection={"q": 0.2},
        referee_parts=2,
    )


@pytest.mark.slow
def test_on_images_the_user_is_not_worse_off(settings):
    """40 % noise on digits as images; plain training has no time to memorise, and does well.

    On 300 test images, 0.06 is about two standard errors of the difference: processors that round
    differently end with other networks.
    """
    X, truth = digit_images(800)
    y = symmetric(truth, 0.4, seed=0)
    long = settings.changed(epochs=8, warmup_epochs=3, select_every=2, selection={"q": 0.1})
    test = X[500:], truth[500:]
    trained = fit(X[:500], y[:500], settings=long, truth=truth[:500], test=test)
    last = trained.history[-1]
    plain = max(last["reference_accuracy"], last["reference_accuracy_average"])
    assert trained.test_accuracy > plain - 0.06
    assert trained.test_accuracy > 0.7


def test_pretraining_comes_first_and_is_resumable(settings, tmp_path):
    X, y = digit_images(200)
    small = {"width": 32, "bottleneck": 8, "batch_size": 64}
    long = settings.changed(pretrain_epochs=2, pretrain=small, epochs=2, warmup_epochs=0)
    whole = fit(X, y, settings=long, out=tmp_path / "whole")
    assert len(list((tmp_path / "whole" / "checkpoints" / "pretrain").glob("*.pt"))) == 2
    # As if it had been killed after the first epoch of the pre-training.
    cut = tmp_path / "cut"
    (cut / "checkpoints" / "pretrain").mkdir(parents=True)
    for name in ("train.json", "checkpoints/pretrain/000001.pt"):
        (cut / name).write_bytes((tmp_path / "whole" / name).read_bytes())
    resumed = fit(X, y, settings=long, out=cut, resume=True)
    for a, b in zip(resumed.network.parameters(), whole.network.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("pretrain_epochs", [0, 1])
def test_referees_judge_images_by_features_of_patches(settings, pretrain_epochs):
    """With and without SimSiam; the patches have not seen the labels, nor has `frozen`."""
    X, truth = digit_images(240)
    y = symmetric(truth, 0.3, seed=0)
    small = {"width": 16, "bottleneck": 8, "batch_size": 64}
    chosen = settings.changed(
        select_on="referees", epochs=4, pretrain_epochs=pretrain_epochs, pretrain=small
    )
    trained = fit(X, y, settings=chosen, truth=truth)
    assert trained.selection.manifest.method == "ProbabilitySelector"
    assert not trained.selection.manifest.seen_labels
    wrong, kept = y != truth, trained.frozen.clean_mask
    assert wrong[kept].mean() < 0.25  # q is 0.2, and 0.3 of the labels are wrong
    assert kept[~wrong].mean() > 0.8
    assert (trained.predict(X) == truth).mean() > 0.5


def test_an_unknown_parameter_of_simsiam_is_named(settings):
    X, y = digit_images(50)
    with pytest.raises(InputError, match=r"parameter that SimSiam does not have.*depth"):
        fit(X, y, settings=settings.changed(pretrain={"depth": 3}))


def test_simsiam_sees_pixels_as_training_and_selection_do(settings, monkeypatch):
    """It saw them from 0 to 1, where they are centred and scaled for all other steps."""
    X, y = digit_images(60)
    seen = []
    forward = BodyNetwork.forward
    monkeypatch.setattr(BodyNetwork, "forward", lambda net, x: seen.append(x) or forward(net, x))
    still = {"area": [1.0, 1.0], "ratio": [1.0, 1.0], "jitter_probability": 0.0, "flip": False}
    chosen = settings.changed(pretrain={"batch_size": 60, "width": 8, "views": still})
    fit(X, y, settings=chosen.changed(pretrain_epochs=1, epochs=1, mean=(0.5,), std=(0.25,)))
    expected = normalise(torch.from_numpy(X), (0.5,), (0.25,))
    assert sorted(seen[0].sum((1, 2, 3)).tolist()) == pytest.approx(
        sorted(expected.sum((1, 2, 3)).tolist()), rel=1e-3, abs=1e-2
    )


@pytest.mark.parametrize(
    ("pretrain", "sentence"),
    [
        ({"views": {"blurr": 1}}, "parameter that SimSiam does not have.*blurr"),
        ({"views": 3}, "pretrain.views must be a table, got 3"),
        ({"views": {"area": [1.0, 0.2]}}, "area must be two positive numbers in order"),
        ({"views": {"flip": "yes"}}, "flip must be true or false"),
    ],
)
def test_a_wrong_view_of_simsiam_is_one_sentence(settings, pretrain, sentence):
    X, y = digit_images(50)
    with pytest.raises(InputError, match=sentence):
        fit(X, y, settings=settings.changed(pretrain=pretrain))


@pytest.mark.parametrize(
    "changes",
    [pytest.param({"precision": "bfloat16"}, marks=pytest.mark.slow), {"channels_last": True}],
)
def test_faster_arithmetic_trains_as_well(settings, changes):
    X, y = digit_images(200)
    chosen = settings.changed(**changes, deterministic=True, select_on="network")
    trained = fit(X, y, settings=chosen)
    assert np.isfinite([line["loss"] for line in trained.history]).all()
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("preset", "side"),
    [
        ("cifar10", 32),
        ("paper-cifar100", 32),
        ("paper-clothing1m", 64),
        ("webvision", 96),
    ],
)
def test_the_papers_presets_start_and_leave_a_checkpoint(preset, side, tmp_path):
    """A few steps on made images, smaller than the preset's own: nothing more is claimed."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 256, (24, 3, side, side), dtype=np.uint8)
    few = {"epochs": 1, "batch_size": 8, "pretrain_epochs": 0, "precision": "float32"}
    settings = TrainSettings.from_preset(preset, **few)
    fit(X, np.arange(24) % 3, settings=settings, out=tmp_path / "run")
    assert (tmp_path / "run" / "checkpoints" / "000001.pt").exists()


DIES = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"


def test_where_bfloat16_dies_training_is_that_of_float32(settings, monkeypatch, tmp_path):
    monkeypatch.setattr("kspr.models.device._PROBE", DIES)
    X, y = digit_images(120)
    short = settings.changed(epochs=2, precision="bfloat16", select_on="network")
    with pytest.warns(PrecisionWarning, match="Computing in float32 instead") as said:
        trained = fit(X, y, settings=short, out=tmp_path / "run")
    assert len([w for w in said if w.category is PrecisionWarning]) == 1
    expected = fit(X, y, settings=short.changed(precision="float32"))
    for name, value in trained.network.state_dict().items():
        assert torch.equal(value, expected.network.state_dict()[name])
    assert trained.settings.precision == "float32"
    assert read_about(tmp_path / "run")["settings"]["precision"] == "float32"


def test_strict_refuses_a_bfloat16_that_dies(settings, monkeypatch, tmp_path):
    monkeypatch.setattr("kspr.models.device._PROBE", DIES)
    X, y = digit_images(60)
    chosen = settings.changed(precision="bfloat16", strict=True)
    with pytest.raises(InputError, match="Choose float32, or leave strict out"):
        fit(X, y, settings=chosen, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
