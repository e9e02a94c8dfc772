"""WebVision 1.0 and Clothing1M: images from the web, by lists of files with their classes.

WebVision's images are those that a search engine returned for the 1,000 classes of ILSVRC12. The
labels of Clothing1M's million shop images, in 14 classes, come from the text around them.
"""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kspr.errors import InputError
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
from kspr.sources.published.ilsvrc12 import read_validation
from kspr.sources.readers.file_checks import shown
from kspr.sources.readers.items import ImageFiles
from kspr.sources.records import Records

__all__ = ["CLOTHING1M", "WEBVISION", "WEBVISION_MINI", "Clothing1M", "WebVision"]

_INFO = "WebVision 1.0's info.tar"
_SYNSETS = "info/synsets.txt"
_ALL_CLASSES = 1000


@dataclass(frozen=True)
class _List:
    path: str
    relative_to: str
    """Folder that the list's paths are relative to."""
    images: str
    """Folder that must be there."""
    purpose: str


_FILE_LISTS = {
    "train": _List("info/train_filelist_google.txt", "", "google", "training images from Google"),
    "val": _List("info/val_filelist.txt", "val_images_256", "val_images_256", "validation images"),
}
_ARCHIVES = {"google": "google_resized_256.tar", "val_images_256": "val_images_256.tar"}


@dataclass(frozen=True)
class WebVision:
    """The Google part of WebVision 1.0, or the first of its classes.

    Labels are the first name of each class in `info/synsets.txt`; where two classes share it,
    their WordNet number follows.
    """

    name: str
    about: str
    classes: int
    splits: tuple[str, ...] = ("train", "val", "ilsvrc12")

    def files(self, root: Path) -> list[tuple[str, str]]:  # noqa: ARG002 - the same for every root
        """Return the lists and the folders of images."""
        lists = _FILE_LISTS.values()
        return [
            (_SYNSETS, "class names and their order"),
            *((known.path, f"list of {known.purpose}") for known in lists),
            *((known.images, known.purpose) for known in lists),
            ("imagenet", "ILSVRC12 validation images (split ilsvrc12)"),
        ]

    def present(self, root: Path) -> bool:
        """Return whether the class names, the training list and its images are there."""
        train = _FILE_LISTS["train"]
        files = (root / _SYNSETS, root / train.path)
        return all(path.is_file() for path in files) and (root / train.images).is_dir()

    def matches(self, path: Path) -> bool:
        """Return whether `path` is the folder or one of its file lists.

        The first 50 classes alone are read where the folder's name says `mini`.
        """
        root, split = self._locate(path)
        any_list = any((root / known.path).is_file() for known in _FILE_LISTS.values())
        mini = "mini" in root.name.lower()
        return any_list and (path.is_dir() or split is not None) and mini == (self.classes < 1000)

    def read(self, path: Path, options: ReadOptions = AS_FOUND) -> Records:
        """Return the rows of the first classes, in the order of the file list.

        The split `ilsvrc12` takes its images from the folder `imagenet` beside `info`, and has the
        labels of WebVision's classes.
        """
        split = choose_split(options, self.splits, self.name, takes=("classes",))
        root, named = self._locate(path)
        split = split if options.split else named or split
        synsets, count = _read_synsets(root), options.classes or self.classes
        if options.classes is not None and not 2 <= options.classes <= _ALL_CLASSES:
            raise InputError(f"classes must lie in 2..{_ALL_CLASSES}, got {options.classes}.")
        if count > len(synsets):
            how = f"names {len(synsets)} classes, not {count}"
            raise damaged(root / _SYNSETS, _INFO, how)
        if split == "ilsvrc12":
            known = dict(list(synsets.items())[:count])
            records = read_validation(root / "imagenet", self.name, known)
        else:
            records = self._listed(path, root, _FILE_LISTS[split], list(synsets.values()), count)
        return with_labels(records, options, verified=split != "train")

    def _listed(
        self, path: Path, root: Path, known: _List, names: list[str], count: int
    ) -> Records:
        lines = read_lines(root / known.path, _INFO)
        rows = [split_line(root / known.path, line, _INFO, len(names)) for line in lines]
        # "The first 50 classes of WebVision" (the paper's data): the order is that of synsets.txt.
        kept = [(image, label) for image, label in rows if label < count]
        if not kept:
            raise damaged(root / known.path, _INFO, f"lists no image of the first {count} classes")
        if not (root / known.images).is_dir():
            raise missing(root / known.images, f"WebVision 1.0's {_ARCHIVES[known.images]}")
        images = np.asarray([image for image, _ in kept])
        label = name_classes([label for _, label in kept], names)
        items = ImageFiles(root / known.relative_to, images)
        return Records(path, self.name, images, label=label, items=items, named=True)

    def _locate(self, path: Path) -> tuple[Path, str | None]:
        """Return the root, and the split where `path` is a file list."""
        for split, known in _FILE_LISTS.items():
            if path.is_file() and path.as_posix().endswith(known.path):
                return path.parent.parent, split
        return path, None


WEBVISION_MINI = WebVision(
    name="webvision-mini",
    about="WebVision 1.0, first 50 classes of the Google part; validation, ILSVRC12 validation",
    classes=50,
)
WEBVISION = WebVision(
    name="webvision",
    about="WebVision 1.0, all 1,000 classes of the Google part; validation, ILSVRC12 validation",
    classes=_ALL_CLASSES,
)


def _read_synsets(root: Path) -> dict[str, str]:
    """Return the name of each class by its WordNet number, in WebVision's order."""
    path = root / _SYNSETS
    parts = [line.partition(" ") for line in read_lines(path, _INFO)]
    wrong = [number for number, _, _ in parts if not re.fullmatch(r"n\d{8}", number)]
    if wrong:
        how = f"has {shown(wrong[0])} where a number such as n01440764 belongs"
        raise damaged(path, _INFO, how)
    first = {number: words.split(",")[0].strip() or number for number, _, words in parts}
    # ILSVRC12 has two classes called crane and two called maillot.
    shared = Counter(first.values())
    return {n: name if shared[name] == 1 else f"{name} ({n})" for n, name in first.items()}


_ORIGIN = "the Clothing1M release (its text files)"
_IMAGES = "the Clothing1M release (images/0.tar to images/9.tar)"
_NAMES = "category_names_eng.txt"
_NOISY, _CLEAN = "noisy_label_kv.txt", "clean_label_kv.txt"
_KEY_LISTS = {
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
    splits: tuple[str, ...] = (*_KEY_LISTS, "both")

    def files(self, root: Path) -> list[tuple[str, str]]:
        """Return the key files, beside `images` or in `annotations`, and the images."""
        prefix = "" if self._keys(root) == root else "annotations/"
        listed = [
            (_NAMES, "class names"),
            (_NOISY, "labels from the surrounding text"),
            (_CLEAN, "labels by people"),
            *((keys, f"images of the split {split}") for split, (keys, _) in _KEY_LISTS.items()),
        ]
        return [*((prefix + name, purpose) for name, purpose in listed), ("images", "images")]

    def present(self, root: Path) -> bool:
        """Return whether the noisy training images and their labels are there."""
        needed = (_NAMES, *_KEY_LISTS["train"])
        return (root / "images").is_dir() and all((self._keys(root) / f).is_file() for f in needed)

    def matches(self, path: Path) -> bool:
        """Return whether `path` is the folder or one of its key lists."""
        root, split = self._locate(path)
        # One file is enough: an incomplete copy is told what is missing, and not taken for a plain
        # folder of images.
        known = {name for names in _KEY_LISTS.values() for name in names}
        any_list = any((self._keys(root) / name).is_file() for name in known)
        return any_list and (path.is_dir() or split is not None)

    def read(self, path: Path, options: ReadOptions = AS_FOUND) -> Records:
        """Return the rows of a split in the order of its key list.

        Truth is known for the split `both`: its label is the noisy one.
        """
        split = choose_split(options, self.splits, self.name)
        root, named = self._locate(path)
        split = split if options.split else named or split
        folder = self._keys(root)
        classes = read_lines(folder / _NAMES, _ORIGIN)
        if len(classes) != _CLASSES:
            how = f"names {len(classes)} classes, not {_CLASSES}"
            raise damaged(folder / _NAMES, _ORIGIN, how)
        if split == "both":
            noisy, clean = _key_values(folder / _NOISY), _key_values(folder / _CLEAN)
            keys = [key for key in clean if key in noisy]
            if not keys:
                raise damaged(folder / _NOISY, _ORIGIN, f"shares no image with {_CLEAN}")
            label = name_classes([noisy[key] for key in keys], classes)
            truth = name_classes([clean[key] for key in keys], classes)
        else:
            of_split, of_labels = _KEY_LISTS[split]
            labels = _key_values(folder / of_labels)
            keys = read_lines(folder / of_split, _ORIGIN)
            unlabelled = next((key for key in keys if key not in labels), None)
            if unlabelled is not None:
                raise damaged(folder / of_labels, _ORIGIN, f"has no label for {unlabelled}")
            label, truth = name_classes([labels[key] for key in keys], classes), None
        if not (root / "images").is_dir():
            raise missing(root / "images", _IMAGES)
        row_id = np.asarray(keys)
        items = ImageFiles(root, row_id)
        records = Records(path, self.name, row_id, label, items=items, truth=truth, named=True)
        # In `train` and `both`, the published label is the noisy one.
        return with_labels(records, options, verified=split in ("clean_train", "val", "test"))

    def _keys(self, root: Path) -> Path:
        """Return the folder of the key files; the release has had them in both places."""
        inner = root / "annotations"
        return inner if (inner / _NOISY).is_file() else root

    def _locate(self, path: Path) -> tuple[Path, str | None]:
        """Return the root, and the split where `path` is a key list."""
        if not path.is_file():
            return path, None
        split = next((name for name, (keys, _) in _KEY_LISTS.items() if keys == path.name), None)
        inner = path.parent.name == "annotations"
        return (path.parent.parent if inner else path.parent), split


CLOTHING1M = Clothing1M()


def _key_values(path: Path) -> dict[str, int]:
    lines = read_lines(path, _ORIGIN)
    return dict(split_line(path, line, _ORIGIN, _CLASSES) for line in lines)
