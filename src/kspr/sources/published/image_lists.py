"""WebVision 1.0, Clothing1M and ILSVRC12's validation images, the test set for WebVision.

WebVision's images are those that a search engine returned for the 1,000 classes of ILSVRC12. The
labels of Clothing1M's million shop images, in 14 classes, come from the text around them.
ILSVRC12's images are read in either of two layouts: `val/<WordNet number>/*.JPEG`, or
`val/ILSVRC2012_val_*.JPEG` with the true classes in the development kit
(`ILSVRC2012_validation_ground_truth.txt`, `meta.mat`) or in Kaggle's `LOC_val_solution.csv`.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
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
from kspr.sources.records import ImageFiles, Records

_ILSVRC12_IMAGES = "ILSVRC2012_img_val.tar"
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
        raise missing(root / "val", _ILSVRC12_IMAGES)
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
_CLOTHING1M_IMAGES = "the Clothing1M release (images/0.tar to images/9.tar)"
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
            raise missing(root / "images", _CLOTHING1M_IMAGES)
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
