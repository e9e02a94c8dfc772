"""ILSVRC12's validation images, the test set of models trained on WebVision.

They are read in either of two layouts: `val/<WordNet number>/*.JPEG`, or
`val/ILSVRC2012_val_*.JPEG` with the true classes in the development kit
(`ILSVRC2012_validation_ground_truth.txt`, `meta.mat`) or in Kaggle's `LOC_val_solution.csv`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kspr.errors import InputError
from kspr.sources.options import AS_FOUND, ReadOptions
from kspr.sources.published import choose_split, damaged, missing, read_lines, with_labels
from kspr.sources.readers.items import ImageFiles
from kspr.sources.records import Records

__all__ = ["ILSVRC12_VALIDATION", "Ilsvrc12Validation", "read_validation"]

_IMAGES = "ILSVRC2012_img_val.tar"
_KIT = "ILSVRC2012_devkit_t12.tar.gz"
_TRUTH = "ILSVRC2012_validation_ground_truth.txt"
_KAGGLE, _KAGGLE_ARCHIVE = "LOC_val_solution.csv", "Kaggle's ILSVRC archive"
# Beside `val`, in the kit's own folder, or in the archive as it unpacks.
_TRUTH_FILES = (_TRUTH, f"data/{_TRUTH}", f"ILSVRC2012_devkit_t12/data/{_TRUTH}", _KAGGLE)
_NUMBER = re.compile(r"n\d{8}")
_FLAT = re.compile(r"ILSVRC2012_val_(\d{8})\.JPEG", re.IGNORECASE)


@dataclass(frozen=True)
class Ilsvrc12Validation:
    """The 50,000 validation images of ILSVRC12; labels are WordNet numbers."""

    name: str = "ilsvrc12"
    about: str = "ILSVRC12 validation images, in class folders or flat with the development kit"
    splits: tuple[str, ...] = ("val",)

    def files(self, root: Path) -> list[tuple[str, str]]:  # noqa: ARG002 - the same for every root
        """Return the folder of images, and what a flat one needs."""
        return [
            ("val", "images, in folders such as n01440764 or all in one"),
            (_TRUTH, "classes of images that are all in one folder"),
            ("meta.mat", "the WordNet number of each of these classes"),
        ]

    def present(self, root: Path) -> bool:
        """Return whether `val` holds class folders, or images whose classes are there too."""
        flat = any(_named_like(root, _FLAT)) and _truth_file(root) is not None
        return flat or any(_class_folders(root))

    def matches(self, path: Path) -> bool:
        """Return whether `path` is the folder around `val`.

        Not if it holds `train` too: whoever names that folder does not mean the test images.
        """
        alone = not (path / "train").exists()
        return alone and (any(_class_folders(path)) or any(_named_like(path, _FLAT)))

    def read(self, path: Path, options: ReadOptions = AS_FOUND) -> Records:
        """Return all validation images."""
        choose_split(options, self.splits, self.name)
        return with_labels(read_validation(path, self.name, None), options, verified=True)


ILSVRC12_VALIDATION = Ilsvrc12Validation()


def read_validation(root: Path, reader: str, names: Mapping[str, str] | None) -> Records:
    """Return the validation images whose WordNet number is in `names`, labelled by its name.

    Without `names`, all of them, labelled by the number. Rows are sorted by class, then file.
    """
    rows = sorted(_sorted_rows(root) or _flat_rows(root))
    if names is not None:
        order = {number: position for position, number in enumerate(names)}
        rows = sorted((r for r in rows if r[0] in order), key=lambda row: (order[row[0]], row[1]))
    if not rows:
        raise InputError(f"{root / 'val'} has no image of the classes asked for.")
    images = np.asarray([image for _, image in rows])
    label = np.asarray([names[number] if names else number for number, _ in rows])
    return Records(root, reader, images, label, items=ImageFiles(root, images), named=True)


def _named_like(root: Path, pattern: re.Pattern[str]) -> Iterator[Path]:
    """Yield the files and folders in `val` that have such a name."""
    val = root / "val"
    return (p for p in (val.iterdir() if val.is_dir() else ()) if pattern.fullmatch(p.name))


def _class_folders(root: Path) -> Iterator[Path]:
    return (path for path in _named_like(root, _NUMBER) if path.is_dir())


def _sorted_rows(root: Path) -> list[tuple[str, str]]:
    """Return WordNet number and path of each image in class folders."""
    return [
        (folder.name, f"val/{folder.name}/{image.name}")
        for folder in _class_folders(root)
        for image in folder.iterdir()
        if image.suffix.lower() in {".jpeg", ".jpg"}
    ]


def _flat_rows(root: Path) -> list[tuple[str, str]]:
    """Return WordNet number and path of each image in the folder `val` itself."""
    images = {int(path.stem[-8:]): path.name for path in _named_like(root, _FLAT)}
    if not images:
        raise missing(root / "val", _IMAGES)
    truth = _truth_file(root)
    if truth is None:
        raise missing(root / _TRUTH, _KIT)
    number_of = _kaggle(truth) if truth.name == _KAGGLE else _development_kit(truth)
    unknown = sorted(image for position, image in images.items() if position not in number_of)
    if unknown:
        raise damaged(truth, _KIT, f"has no class for {unknown[0]}")
    return [(number_of[position], f"val/{image}") for position, image in images.items()]


def _truth_file(root: Path) -> Path | None:
    return next((root / name for name in _TRUTH_FILES if (root / name).is_file()), None)


def _kaggle(path: Path) -> dict[int, str]:
    """Return the class of each image from lines `ILSVRC2012_val_00000001,n03995372 85 ...`."""
    header, *lines = read_lines(path, _KAGGLE_ARCHIVE)
    number_of = {}
    for line in lines:
        image, _, boxes = line.partition(",")
        # Several boxes may follow, each with its class; the first decides.
        number = boxes.strip('" ').partition(" ")[0]
        named = _FLAT.fullmatch(f"{image}.JPEG")
        if not header.startswith("ImageId") or not _NUMBER.fullmatch(number) or named is None:
            raise damaged(path, _KAGGLE_ARCHIVE, f"has the line {line[:60]!r}")
        number_of[int(named[1])] = number
    return number_of


def _development_kit(path: Path) -> dict[int, str]:
    """Return the class of each image from the kit's numbers, one a line in the images' order."""
    from scipy.io import loadmat

    meta = path.with_name("meta.mat")
    if not meta.is_file():
        raise missing(meta, _KIT)
    try:
        # MATLAB has no scalars: without squeeze_me, each field is an array of its own.
        synsets = loadmat(meta, squeeze_me=True)["synsets"]
        number = {int(row["ILSVRC2012_ID"]): str(row["WNID"]) for row in synsets}
    # scipy's reader raises whatever a damaged file leads it to.
    except Exception as error:
        raise damaged(meta, _KIT, "is cut short or damaged") from error
    lines = read_lines(path, _KIT)
    wrong = [line for line in lines if not line.isdecimal() or int(line) not in number]
    if wrong:
        raise damaged(path, _KIT, f"has the line {wrong[0][:60]!r} where a class number belongs")
    return {position: number[int(line)] for position, line in enumerate(lines, start=1)}
