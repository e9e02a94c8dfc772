"""Published data sets in their own layouts, a few images each."""

import pickle
import zipfile
from pathlib import Path

import numpy as np
from scipy.io import savemat

from kspr.noise import CIFAR10, CIFAR100, CIFAR100_COARSE
from tests.hostile.targets import Target, use_source
from tests.sources.published.conftest import CLOTHES, SYNSETS, python2, python3, write_image

_PIXELS = np.random.default_rng(0).integers(0, 256, (2, 3072), dtype=np.uint8)
_BATCHES = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]


def _cifar10(folder: Path) -> None:
    root = folder / "cifar-10-batches-py"
    root.mkdir()
    for name in _BATCHES:
        (root / name).write_bytes(python2({b"labels": [3, 4], b"data": _PIXELS}))
    (root / "batches.meta").write_bytes(python2({b"label_names": [c.encode() for c in CIFAR10]}))


def _cifar10_binary(folder: Path) -> None:
    root = folder / "cifar-10-batches-bin"
    root.mkdir()
    for name in _BATCHES:
        np.c_[np.array([3, 4], np.uint8), _PIXELS].tofile(root / f"{name}.bin")
    (root / "batches.meta.txt").write_text("\n".join(CIFAR10) + "\n\n")


def _cifar100(folder: Path) -> None:
    root = folder / "cifar-100-python"
    root.mkdir()
    for name in ("train", "test"):
        rows = {b"fine_labels": [3, 94], b"coarse_labels": [0, 18], b"data": _PIXELS}
        (root / name).write_bytes(python3(rows))
    names = {"fine": CIFAR100, "coarse": CIFAR100_COARSE}
    meta = {f"{k}_label_names".encode(): [c.encode() for c in v] for k, v in names.items()}
    (root / "meta").write_bytes(python3(meta))


def _cifar10n(folder: Path) -> None:
    _cifar10(folder)
    clean = np.array([3, 4] * 5)
    keys = ("aggre_label", "worse_label", *(f"random_label{k}" for k in (1, 2, 3)))
    content = {"clean_label": clean, **dict.fromkeys(keys, (clean + 1) % 10)}
    with zipfile.ZipFile(folder / "CIFAR-10_human.pt", "w") as archive:
        archive.writestr("CIFAR-10_human/data.pkl", pickle.dumps(content, 2))
        archive.writestr("CIFAR-10_human/version", "3\n")


def _webvision(folder: Path) -> None:
    (folder / "info").mkdir(parents=True)
    lines = "".join(f"{number} {words}\n" for number, words in SYNSETS.items())
    (folder / "info/synsets.txt").write_text(lines)
    train = [(f"google/q{c:04d}/image {i}.jpg", c) for c in (0, 1, 49) for i in range(2)]
    for name, rows in (("train_filelist_google", train), ("val_filelist", [("v.jpg", 1)])):
        (folder / f"info/{name}.txt").write_text("".join(f"{p} {c}\n" for p, c in rows))
    for path, c in train:
        write_image(folder / path, c)
    write_image(folder / "val_images_256/v.jpg", 1)


def _clothing1m(folder: Path) -> None:
    noisy = {f"images/{i}/26/37613281{i},90{i}.jpg": i for i in range(4)}
    clean = {f"images/9/{split}/0,1.jpg": 13 for split in ("train", "val", "test")}
    for key in (*noisy, *clean):
        write_image(folder / key, 99)
    lines = {
        "category_names_eng.txt": CLOTHES,
        "noisy_train_key_list.txt": noisy,
        "noisy_label_kv.txt": [f"{k} {c}" for k, c in noisy.items()],
        "clean_label_kv.txt": [f"{k} {c}" for k, c in clean.items()],
        **{f"clean_{k.split('/')[2]}_key_list.txt": [k] for k in clean},
    }
    for name, content in lines.items():
        (folder / name).write_text("".join(f"{line}\n" for line in content))


def _imagenet(folder: Path) -> None:
    for position in (1, 2):
        write_image(folder / f"val/ILSVRC2012_val_{position:08d}.JPEG", position)
    kit = folder / "ILSVRC2012_devkit_t12/data"
    kit.mkdir(parents=True)
    (kit / "ILSVRC2012_validation_ground_truth.txt").write_text("2\n1\n")
    rows = list(zip((1.0, 2.0), SYNSETS, strict=False))
    synsets = np.array(rows, dtype=[("ILSVRC2012_ID", "f8"), ("WNID", "O")])
    savemat(kit / "meta.mat", {"synsets": synsets.reshape(-1, 1)})


def _published(name: str, build, inside: str = ".", damaged: str = "**/*", **said) -> Target:
    return Target(name, build, lambda folder: use_source(folder / inside, **said), damaged)


PUBLISHED = (
    _published("cifar-10", _cifar10, "cifar-10-batches-py"),
    _published("cifar-10 binary", _cifar10_binary, "cifar-10-batches-bin"),
    _published("cifar-100", _cifar100, "cifar-100-python", label="coarse"),
    Target(
        "cifar-10n",
        _cifar10n,
        lambda folder: use_source(
            folder / "cifar-10-batches-py", labels=folder / "CIFAR-10_human.pt"
        ),
        "CIFAR*",
    ),
    _published("webvision", lambda f: _webvision(f / "mini"), "mini", damaged="mini/info/*"),
    _published("clothing1m", _clothing1m, damaged="*.txt"),
    _published("imagenet", _imagenet),
)
