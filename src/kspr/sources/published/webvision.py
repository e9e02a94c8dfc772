"""WebVision 1.0: images that a search engine found for the 1,000 classes of ILSVRC12."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kspr.errors import InputError
from kspr.sources.options import AS_FOUND, ReadOptions
from kspr.sources.published import ilsvrc12
from kspr.sources.published._layout import (
    choose,
    damaged,
    missing,
    name_classes,
    only_options,
    read_lines,
    split_line,
    with_labels,
)
from kspr.sources.readers.file_checks import shown
from kspr.sources.readers.items import ImageFiles
from kspr.sources.records import Records

__all__ = ["WEBVISION", "WEBVISION_MINI", "WebVision"]

_INFO = "WebVision 1.0's info.tar"
_SYNSETS = "info/synsets.txt"


@dataclass(frozen=True)
class _Split:
    filelist: str
    images: str
    """Folder that the list's paths are relative to."""
    first: str
    """Folder that must be there."""
    archive: str
    purpose: str


_SPLITS = {
    "train": _Split(
        filelist="info/train_filelist_google.txt",
        images="",
        first="google",
        archive="WebVision 1.0's google_resized_256.tar",
        purpose="training images from Google",
    ),
    "val": _Split(
        filelist="info/val_filelist.txt",
        images="val_images_256",
        first="val_images_256",
        archive="WebVision 1.0's val_images_256.tar",
        purpose="validation images",
    ),
}


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

    def files(self, root: Path) -> list[tuple[str, str]]:  # noqa: ARG002 - the protocol's
        """Return the lists and the folders of images."""
        listed = [(_SYNSETS, "class names and their order")]
        for split in _SPLITS.values():
            listed += [(split.filelist, f"list of {split.purpose}"), (split.first, split.purpose)]
        return [*listed, ("imagenet", "ILSVRC12 validation images (split ilsvrc12)")]

    def present(self, root: Path) -> bool:
        """Return whether the class names, the training list and its images are there."""
        train = _SPLITS["train"]
        files = (root / _SYNSETS, root / train.filelist)
        return all(path.is_file() for path in files) and (root / train.first).is_dir()

    def matches(self, path: Path, options: ReadOptions) -> bool:  # noqa: ARG002 - the protocol's
        """Return whether `path` is the folder or one of its file lists.

        The first 50 classes alone are read where the folder's name says `mini`.
        """
        root, split = _locate(path)
        found = any((root / known.filelist).is_file() for known in _SPLITS.values())
        mini = "mini" in root.name.lower()
        right_file = path.is_dir() or split is not None
        return found and right_file and mini == (self.classes < WEBVISION.classes)

    def read(
        self,
        path: Path,
        options: ReadOptions = AS_FOUND,
        *,
        split: str | None = None,
        classes: int | None = None,
        imagenet: Path | None = None,
    ) -> Records:
        """Return the rows of the first `classes` classes, in the order of the file list.

        The split `ilsvrc12` takes its images from `imagenet`, by default the folder of that name
        beside `info`, and has the labels of WebVision's classes.
        """
        only_options(options, ("labels", "label") if options.labels else (), self.name)
        root, named = _locate(path)
        split = choose(split or named, self.splits, self.name)
        synsets = read_synsets(root)
        count = _checked(classes or self.classes, synsets, root)
        if split == "ilsvrc12":
            known = dict(list(synsets.items())[:count])
            records = ilsvrc12.read_validation(imagenet or root / "imagenet", self.name, known)
        else:
            records = self._listed(path, root, _SPLITS[split], list(synsets.values()), count)
        return with_labels(records, options, verified=split != "train")

    def _listed(
        self, path: Path, root: Path, split: _Split, names: Sequence[str], count: int
    ) -> Records:
        filelist = root / split.filelist
        lines = read_lines(filelist, _INFO)
        rows = [split_line(filelist, line, _INFO, len(names)) for line in lines]
        # "The first 50 classes of WebVision" (the paper's data): the order is that of synsets.txt.
        kept = [(image, label) for image, label in rows if label < count]
        if not kept:
            raise damaged(filelist, _INFO, f"lists no image of the first {count} classes")
        if not (root / split.first).is_dir():
            raise missing(root / split.first, split.archive)
        images = np.asarray([image for image, _ in kept])
        return Records(
            path,
            self.name,
            images,
            label=name_classes([label for _, label in kept], names),
            items=ImageFiles(root / split.images, images),
            named=True,
        )


WEBVISION_MINI = WebVision(
    name="webvision-mini",
    about="WebVision 1.0, first 50 classes of the Google part; validation, ILSVRC12 validation",
    classes=50,
)
WEBVISION = WebVision(
    name="webvision",
    about="WebVision 1.0, all 1,000 classes of the Google part; validation, ILSVRC12 validation",
    classes=1000,
)


def read_synsets(root: Path) -> dict[str, str]:
    """Return the name of each class by its WordNet number, in WebVision's order."""
    path = root / _SYNSETS
    parts = [line.partition(" ") for line in read_lines(path, _INFO)]
    wrong = [number for number, _, _ in parts if not re.fullmatch(r"n\d{8}", number)]
    if wrong:
        raise damaged(
            path, _INFO, f"has {shown(wrong[0])} where a number such as n01440764 belongs"
        )
    first = {number: words.split(",")[0].strip() or number for number, _, words in parts}
    # ILSVRC12 has two classes called crane and two called maillot.
    shared = Counter(first.values())
    return {n: name if shared[name] == 1 else f"{name} ({n})" for n, name in first.items()}


def _checked(classes: int, synsets: dict[str, str], root: Path) -> int:
    if not 2 <= classes <= WEBVISION.classes:
        raise InputError(f"classes must lie in 2..{WEBVISION.classes}, got {classes}.")
    if classes > len(synsets):
        raise damaged(root / _SYNSETS, _INFO, f"names {len(synsets)} classes, not {classes}")
    return classes


def _locate(path: Path) -> tuple[Path, str | None]:
    """Return the root, and the split where `path` is a file list."""
    for name, split in _SPLITS.items():
        if path.is_file() and path.as_posix().endswith(split.filelist):
            return path.parent.parent, name
    return path, None
