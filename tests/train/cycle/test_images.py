"""Whole networks on images: from memory, from files, pre-trained, in presets."""

import numpy as np
import pytest
import torch
from kspr.core.noise import symmetric
from kspr.sources.readers.items import ImageFiles
from PIL import Image
from sklearn.datasets import load_digits

from kspr.errors import InputError, UnreadableItemError
from kspr.train import TrainSettings, fit
from kspr.train.inputs import Images, LazyImages, Vectors, as_inputs, image_inputs
from tests.cli.commands import fails, run


def digit_images(n):
    X, y = load_digits(return_X_y=True)
    return (X[:n] * 15.9).astype(np.uint8).reshape(n, 1, 8, 8), y[:n]


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
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Forty images in two classes, dark and bright."""
    root = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for k in range(40):
        shade = rng.integers(0, 90, (8, 8, 3)) + (120 if k % 2 else 0)
        (root / ["dark", "bright"][k % 2]).mkdir(exist_ok=True)
        Image.fromarray(shade.astype(np.uint8)).save(root / ["dark", "bright"][k % 2] / f"{k}.png")
    return root


def test_on_images_the_user_is_not_worse_off(settings):
    """40 % noise on digits as images; plain training has no time to memorise, and does well."""
    X, truth = digit_images(800)
    y = symmetric(truth, 0.4, seed=0)
    long = settings.changed(epochs=8, warmup_epochs=3, select_every=2, selection={"q": 0.1})
    test = X[500:], truth[500:]
    trained = fit(X[:500], y[:500], settings=long, truth=truth[:500], test=test)
    last = trained.history[-1]
    plain = max(last["reference_accuracy"], last["reference_accuracy_average"])
    assert trained.test_accuracy > plain - 0.03
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


def test_an_unknown_parameter_of_simsiam_is_named(settings):
    X, y = digit_images(50)
    with pytest.raises(InputError, match=r"parameter that SimSiam does not have.*depth"):
        fit(X, y, settings=settings.changed(pretrain={"depth": 3}))


@pytest.mark.parametrize("changes", [{"precision": "bfloat16"}, {"channels_last": True}])
def test_faster_arithmetic_trains_as_well(settings, changes):
    X, y = digit_images(200)
    trained = fit(X, y, settings=settings.changed(**changes, deterministic=True))
    assert np.isfinite([line["loss"] for line in trained.history]).all()
    assert not torch.are_deterministic_algorithms_enabled()


def test_images_from_files_are_the_same_held_or_lazy(folder):
    items = ImageFiles(folder, [f"dark/{k}.png" for k in range(0, 40, 2)])
    held, rows, unreadable = image_inputs(items, None)
    lazy = LazyImages(items, rows, 8)
    index = torch.tensor([3, 0, 11])
    assert isinstance(held, Images)
    assert unreadable == {}
    assert torch.equal(held.take(index), lazy.take(index))
    assert lazy.shape == held.shape == (3, 8, 8)


def test_an_image_that_cannot_be_decoded_is_left_out_or_named(folder, tmp_path):
    (tmp_path / "torn.png").write_bytes(b"\x89PNG nothing")
    items = ImageFiles(
        tmp_path, [str(folder / "dark/0.png"), "torn.png", str(folder / "dark/2.png")]
    )
    held, rows, unreadable = image_inputs(items, 8)
    assert (len(held), rows.tolist(), list(unreadable)) == (2, [0, 2], [1])
    with pytest.raises(UnreadableItemError, match=r"torn\.png cannot be decoded"):
        LazyImages(items, np.arange(3), 8).take(torch.tensor([1]))
    with pytest.raises(UnreadableItemError, match="None of the 1 images can be read"):
        image_inputs(ImageFiles(tmp_path, ["torn.png"]), 8)


def test_train_and_predict_on_a_folder_of_images(folder, tmp_path, capsys):
    (tmp_path / "s.toml").write_text(
        "network = 'resnet_small'\nepochs = 2\nwarmup_epochs = 1\npretrain_epochs = 0\n"
        "batch_size = 8\npadding = 0\nselector = 'default'\n[selection]\nq = 0.4\n"
    )
    out = tmp_path / "run"
    said = run(
        "train", folder, "--preset", "cifar10", "--settings", tmp_path / "s.toml", "--out", out,
        capsys=capsys,
    )  # fmt: skip
    assert "epoch   2" in said
    assert "40 predictions" in run(
        "predict", out, folder, "--out", tmp_path / "p.csv", capsys=capsys
    )


@pytest.mark.parametrize(
    ("X", "kind", "message"),
    [
        (np.zeros((3, 8, 8), np.uint8), "images", "Images must be uint8 of shape"),
        (np.zeros((3, 3, 8, 8), np.float32), "images", "Images must be uint8"),
        (Images(np.zeros((3, 3, 8, 8), np.uint8)), "embeddings", "rows of shape .* 'embeddings'"),
        (Vectors(np.zeros((3, 2))), "images", "which needs 3 dimensions a row"),
        (np.array([["a", "b"]]), "embeddings", "X must hold numbers"),
    ],
)
def test_the_wrong_kind_of_input_is_one_sentence(X, kind, message):
    with pytest.raises(InputError, match=message):
        as_inputs(X, kind)


def test_channels_may_come_last():
    X = np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3)
    found = as_inputs(X, "images")
    assert found.shape == (3, 4, 5)
    assert torch.equal(found.take(torch.tensor([1]))[0, 2], torch.from_numpy(X[1, :, :, 2]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("preset", "side"), [("cifar10", 32), ("cifar100", 32), ("clothing1m", 64), ("webvision", 96)]
)
def test_the_papers_presets_start_and_leave_a_checkpoint(preset, side, tmp_path):
    """A few steps on made images, smaller than the preset's own: nothing more is claimed."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 256, (24, 3, side, side), dtype=np.uint8)
    few = {
        "epochs": 1,
        "warmup_epochs": 0,
        "batch_size": 8,
        "selection": {"samples_per_class": None},
    }
    settings = TrainSettings.from_preset(preset, **few, pretrain_epochs=0, precision="float32")
    fit(X, np.arange(24) % 3, settings=settings, out=tmp_path / "run")
    assert (tmp_path / "run" / "checkpoints" / "000001.pt").exists()


def test_a_preset_for_images_needs_images(tmp_path, capsys):
    (tmp_path / "texts.csv").write_text("text,label\nhello,a\nworld,b\n")
    message = fails(
        "train", tmp_path / "texts.csv", "--preset", "cifar10", "--out", tmp_path / "run",
        capsys=capsys,
    )  # fmt: skip
    assert "holds texts, not images" in message
