"""Clothing1M: a million shop images in 14 classes, labelled by the text around them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kspr.sources.options import AS_FOUND, ReadOptions
from kspr.sources.published import (
    choose_split,
    damaged,
    missing,
    name_classes,
    read_lines,
    split_line,
    with_labels,
)
from kspr.sources.readers.items import ImageFiles
from kspr.sources.records import Records

__all__ = ["CLOTHING1M", "Clothing1M"]

_ORIGIN = "the Clothing1M release (its text files)"
_IMAGES = "the Clothing1M release (images/0.tar to images/9.tar)"
_NAMES = "category_names_eng.txt"
_NOISY = "noisy_label_kv.txt"
_CLEAN = "clean_label_kv.txt"
_LISTS = {
    "train": ("noisy_train_key_list.txt", _NOISY),
    "clean_train": ("clean_train_key_list.txt", _CLEAN),
    "val": ("clean_val_key_list.txt", _CLEAN),
    "test": ("clean_test_key_list.txt", _CLEAN),
}
"""The images of each split, and the file that has their labels."""
_CLASSES = 14


@dataclass(frozen=True)
class Clothing1M:
    """Clothing1M by its key files; the split `both` is what has a noisy and a clean label."""

    name: str = "clothing1m"
    about: str = "Clothing1M by its key files; images with both labels as the split both"
    splits: tuple[str, ...] = (*_LISTS, "both")

    def files(self, root: Path) -> list[tuple[str, str]]:
        """Return the key files, beside `images` or in `annotations`, and the images."""
        prefix = "" if _keys(root) == root else "annotations/"
        listed = [
            (_NAMES, "class names"),
            (_NOISY, "labels from the surrounding text"),
            (_CLEAN, "labels by people"),
            *((keys, f"images of the split {split}") for split, (keys, _) in _LISTS.items()),
        ]
        return [*((prefix + name, purpose) for name, purpose in listed), ("images", "images")]

    def present(self, root: Path) -> bool:
        """Return whether the noisy training images and their labels are there."""
        needed = (_NAMES, *_LISTS["train"])
        return (root / "images").is_dir() and all((_keys(root) / f).is_file() for f in needed)

    def matches(self, path: Path) -> bool:
        """Return whether `path` is the folder or one of its key lists."""
        root, split = _locate(path)
        lists = [keys for keys, _ in _LISTS.values()]
        # One file is enough: an incomplete copy is told what is missing, and not taken for a plain
        # folder of images.
        any_list = any((_keys(root) / name).is_file() for name in (_NOISY, _CLEAN, *lists))
        return any_list and (path.is_dir() or split is not None)

    def read(self, path: Path, options: ReadOptions = AS_FOUND) -> Records:
        """Return the rows of a split in the order of its key list.

        Truth is known for the split `both`: its label is the noisy one.
        """
        split = choose_split(options, self.splits, self.name)
        root, named = _locate(path)
        split = split if options.split else named or split
        keys, label, truth = _rows(root, split)
        if not (root / "images").is_dir():
            raise missing(root / "images", _IMAGES)
        items = ImageFiles(root, keys)
        records = Records(path, self.name, keys, label=label, items=items, truth=truth, named=True)
        # In `train` and `both`, the published label is the noisy one.
        return with_labels(records, options, verified=split in ("clean_train", "val", "test"))


CLOTHING1M = Clothing1M()


def _keys(root: Path) -> Path:
    """Return the folder of the key files; the release has had them in both places."""
    inner = root / "annotations"
    return inner if (inner / _NOISY).is_file() else root


def _locate(path: Path) -> tuple[Path, str | None]:
    """Return the root, and the split where `path` is a key list."""
    if not path.is_file():
        return path, None
    split = next((name for name, (keys, _) in _LISTS.items() if keys == path.name), None)
    inner = path.parent.name == "annotations"
    return (path.parent.parent if inner else path.parent), split


def _classes(root: Path) -> list[str]:
    path = _keys(root) / _NAMES
    names = read_lines(path, _ORIGIN)
    if len(names) != _CLASSES:
        raise damaged(path, _ORIGIN, f"names {len(names)} classes, not {_CLASSES}")
    return names


def _labels(path: Path, classes: int) -> dict[str, int]:
    lines = read_lines(path, _ORIGIN)
    return dict(split_line(path, line, _ORIGIN, classes) for line in lines)


def _rows(root: Path, split: str) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return the images of a split, their labels, and the clean ones of the split `both`."""
    classes, folder = _classes(root), _keys(root)
    if split != "both":
        listed, kv = _LISTS[split]
        labels = _labels(folder / kv, len(classes))
        keys = read_lines(folder / listed, _ORIGIN)
        return np.asarray(keys), _named(keys, labels, classes, folder / kv), None
    noisy, clean = (_labels(folder / kv, len(classes)) for kv in (_NOISY, _CLEAN))
    keys = [key for key in clean if key in noisy]
    if not keys:
        raise damaged(folder / _NOISY, _ORIGIN, f"shares no image with {_CLEAN}")
    given, true = (
        _named(keys, labels, classes, folder / kv)
        for labels, kv in ((noisy, _NOISY), (clean, _CLEAN))
    )
    return np.asarray(keys), given, true


def _named(
    keys: Sequence[str], labels: Mapping[str, int], classes: Sequence[str], kv: Path
) -> np.ndarray:
    """Return the class name of each image."""
    unlabelled = next((key for key in keys if key not in labels), None)
    if unlabelled is not None:
        raise damaged(kv, _ORIGIN, f"has no label for {unlabelled}")
    return name_classes([labels[key] for key in keys], classes)
