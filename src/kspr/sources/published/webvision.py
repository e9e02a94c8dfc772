"""WebVision 1.0, and ILSVRC12's validation images, the test set of models trained on it.

WebVision: images that a search engine returned for the 1,000 classes of ILSVRC12. ILSVRC12 is
read in either of two layouts: `val/<WordNet number>/*.JPEG`, or `val/ILSVRC2012_val_*.JPEG` with
the true classes in the development kit (`ILSVRC2012_validation_ground_truth.txt`, `meta.mat`) or in
Kaggle's `LOC_val_solution.csv`.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
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
from kspr.sources.readers.file_checks import shown
from kspr.sources.readers.items import ImageFiles
from kspr.sources.records import Records

__all__ = ["ILSVRC12_VALIDATION", "WEBVISION", "WEBVISION_MINI", "Ilsvrc12Validation", "WebVision"]

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

    def files(self, root: Path) -> list[tuple[str, str]]:  # noqa: ARG002 - the same for every root
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

    def matches(self, path: Path) -> bool:
        """Return whether `path` is the folder around `val`.

        Not if it holds `train` too: whoever names that folder does not mean the test images.
        """
        alone = not (path / "train").exists()
        return alone and (_is_sorted(path / "val") or _is_flat(path / "val"))

    def read(self, path: Path, options: ReadOptions = AS_FOUND) -> Records:
        """Return all validation images."""
        choose_split(options, self.splits, self.name)
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
    match = _FLAT.match(image)
    return int(match[1]) if match else 0


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

    def files(self, root: Path) -> list[tuple[str, str]]:  # noqa: ARG002 - the same for every root
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

    def matches(self, path: Path) -> bool:
        """Return whether `path` is the folder or one of its file lists.

        The first 50 classes alone are read where the folder's name says `mini`.
        """
        root, split = _locate(path)
        any_list = any((root / known.filelist).is_file() for known in _SPLITS.values())
        mini = "mini" in root.name.lower()
        right_file = path.is_dir() or split is not None
        return any_list and right_file and mini == (self.classes < WEBVISION.classes)

    def read(self, path: Path, options: ReadOptions = AS_FOUND) -> Records:
        """Return the rows of the first classes, in the order of the file list.

        The split `ilsvrc12` takes its images from the folder `imagenet` beside `info`, and has the
        labels of WebVision's classes.
        """
        split = choose_split(options, self.splits, self.name, takes=("classes",))
        root, named = _locate(path)
        split = split if options.split else named or split
        synsets, count = read_synsets(root), options.classes or self.classes
        if options.classes is not None and not 2 <= options.classes <= WEBVISION.classes:
            raise InputError(f"classes must lie in 2..1000, got {options.classes}.")
        if count > len(synsets):
            how = f"names {len(synsets)} classes, not {count}"
            raise damaged(root / _SYNSETS, _INFO, how)
        if split == "ilsvrc12":
            known = dict(list(synsets.items())[:count])
            records = read_validation(root / "imagenet", self.name, known)
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


def _locate(path: Path) -> tuple[Path, str | None]:
    """Return the root, and the split where `path` is a file list."""
    for name, split in _SPLITS.items():
        if path.is_file() and path.as_posix().endswith(split.filelist):
            return path.parent.parent, name
    return path, None
