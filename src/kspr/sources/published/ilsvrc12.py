"""ILSVRC12's validation images: the test set of models that were trained on WebVision.

Read in either of two layouts: `val/<WordNet number>/*.JPEG`, or `val/ILSVRC2012_val_*.JPEG` with
the true classes in the development kit (`ILSVRC2012_validation_ground_truth.txt`, `meta.mat`) or
in Kaggle's `LOC_val_solution.csv`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kspr.errors import InputError
from kspr.sources.options import AS_FOUND, ReadOptions
from kspr.sources.published._layout import (
    choose,
    damaged,
    missing,
    only_options,
    read_lines,
    with_labels,
)
from kspr.sources.readers.items import ImageFiles
from kspr.sources.records import Records

__all__ = ["ILSVRC12_VALIDATION", "Ilsvrc12Validation", "read_validation"]

_IMAGES = "ILSVRC2012_img_val.tar"
_KIT = "ILSVRC2012_devkit_t12.tar.gz"
_TRUTH = "ILSVRC2012_validation_ground_truth.txt"
_KAGGLE = "LOC_val_solution.csv"
# Beside `val`, in the kit's own folder, or in the archive as it unpacks.
_KIT_FOLDERS = ("", "data", "ILSVRC2012_devkit_t12/data")
_NUMBER = re.compile(r"n\d{8}")
_FLAT = re.compile(r"ILSVRC2012_val_(\d{8})\.JPEG", re.IGNORECASE)


@dataclass(frozen=True)
class Ilsvrc12Validation:
    """The 50,000 validation images of ILSVRC12; labels are WordNet numbers."""

    name: str = "ilsvrc12"
    about: str = "ILSVRC12 validation images, in class folders or flat with the development kit"
    splits: tuple[str, ...] = ("val",)

    def files(self, root: Path) -> list[tuple[str, str]]:  # noqa: ARG002 - the protocol's
        """Return the folder of images, and what a flat one needs."""
        return [
            ("val", "images, in folders such as n01440764 or all in one"),
            (_TRUTH, "classes of images that are all in one folder"),
            ("meta.mat", "the WordNet number of each of these classes"),
        ]

    def present(self, root: Path) -> bool:
        """Return whether `val` holds class folders, or images whose classes are there too."""
        return _is_sorted(root / "val") or (
            _is_flat(root / "val") and _truth_file(root) is not None
        )

    def matches(self, path: Path, options: ReadOptions) -> bool:  # noqa: ARG002 - the protocol's
        """Return whether `path` is the folder around `val`.

        Not if it holds `train` too: whoever names that folder does not mean the test images.
        """
        alone = not (path / "train").exists()
        return alone and (_is_sorted(path / "val") or _is_flat(path / "val"))

    def read(
        self,
        path: Path,
        options: ReadOptions = AS_FOUND,
        *,
        split: str | None = None,
    ) -> Records:
        """Return all validation images."""
        only_options(options, ("labels", "label") if options.labels else (), self.name)
        choose(split, self.splits, self.name)
        return with_labels(read_validation(path, self.name, None), options, verified=True)


ILSVRC12_VALIDATION = Ilsvrc12Validation()


def read_validation(root: Path, reader: str, names: Mapping[str, str] | None) -> Records:
    """Return the validation images whose WordNet number is in `names`, labelled by its name.

    Without `names`, all of them, labelled by the number. Rows are sorted by class, then file.
    """
    rows = _sorted_rows(root) if _is_sorted(root / "val") else _flat_rows(root)
    if names is not None:
        order = {number: position for position, number in enumerate(names)}
        rows = [row for row in rows if row[0] in order]
        rows.sort(key=lambda row: (order[row[0]], row[1]))
    if not rows:
        raise InputError(f"{root / 'val'} has no image of the classes asked for.")
    images = np.asarray([image for _, image in rows])
    label = np.asarray([names[number] if names else number for number, _ in rows])
    items = ImageFiles(root, images)
    return Records(root, reader, images, label=label, items=items, named=True)


def _is_sorted(val: Path) -> bool:
    return val.is_dir() and any(_NUMBER.fullmatch(p.name) and p.is_dir() for p in val.iterdir())


def _is_flat(val: Path) -> bool:
    return val.is_dir() and any(_FLAT.fullmatch(p.name) for p in val.iterdir())


def _sorted_rows(root: Path) -> list[tuple[str, str]]:
    """Return WordNet number and path of each image in class folders."""
    folders = sorted(p for p in (root / "val").iterdir() if _NUMBER.fullmatch(p.name))
    return [
        (folder.name, f"val/{folder.name}/{image.name}")
        for folder in folders
        for image in sorted(folder.iterdir())
        if image.suffix.lower() in {".jpeg", ".jpg"}
    ]


def _flat_rows(root: Path) -> list[tuple[str, str]]:
    if not _is_flat(root / "val"):
        raise missing(root / "val", _IMAGES)
    truth = _truth_file(root)
    if truth is None:
        raise missing(root / _TRUTH, _KIT)
    number_of = _kaggle(truth) if truth.name == _KAGGLE else _development_kit(truth)
    images = sorted(p.name for p in (root / "val").iterdir() if _FLAT.fullmatch(p.name))
    unknown = [image for image in images if _position(image) not in number_of]
    if unknown:
        raise damaged(truth, _KIT, f"has no class for {unknown[0]}")
    return sorted((number_of[_position(image)], f"val/{image}") for image in images)


def _position(image: str) -> int:
    """Return the number in an image's name, which counts from 1."""
    found = _FLAT.match(image)
    return int(found[1]) if found else 0


def _truth_file(root: Path) -> Path | None:
    candidates = [root / folder / _TRUTH for folder in _KIT_FOLDERS]
    candidates += [root / _KAGGLE]
    return next((path for path in candidates if path.is_file()), None)


def _kaggle(path: Path) -> dict[int, str]:
    """Return the class of each image from lines `ILSVRC2012_val_00000001,n03995372 85 ...`."""
    header, *lines = read_lines(path, "Kaggle's ILSVRC archive")
    number_of = {}
    for line in lines:
        image, _, boxes = line.partition(",")
        # Several boxes may follow, each with its class; the first decides.
        number = boxes.strip('" ').partition(" ")[0]
        if not header.startswith("ImageId") or not _NUMBER.fullmatch(number):
            raise damaged(path, "Kaggle's ILSVRC archive", f"has the line {line[:60]!r}")
        number_of[_position(f"{image}.JPEG")] = number
    return number_of


def _development_kit(path: Path) -> dict[int, str]:
    """Return the class of each image from the kit's numbers, one a line in the images' order."""
    number = _meta(path.with_name("meta.mat"))
    lines = read_lines(path, _KIT)
    wrong = [line for line in lines if not line.isdecimal() or int(line) not in number]
    if wrong:
        raise damaged(path, _KIT, f"has the line {wrong[0][:60]!r} where a class number belongs")
    return {position: number[int(line)] for position, line in enumerate(lines, start=1)}


def _meta(path: Path) -> dict[int, str]:
    """Return the WordNet number of each class number of the development kit."""
    from scipy.io import loadmat

    if not path.is_file():
        raise missing(path, _KIT)
    try:
        # MATLAB has no scalars: without squeeze_me, each field is an array of its own.
        synsets = loadmat(path, squeeze_me=True)["synsets"]
        return {int(row["ILSVRC2012_ID"]): str(row["WNID"]) for row in synsets}
    # scipy's reader raises whatever a damaged file leads it to.
    except Exception as error:
        raise damaged(path, _KIT, "is cut short or damaged") from error
