"""CIFAR-10 and CIFAR-100, and the labels of CIFAR-10N and CIFAR-100N for their images.

50,000 + 10,000 images of 32 x 32 pixels in 10 or 100 classes. CIFAR-N's labels were given by people
on the internet: `CIFAR-10_human.pt` holds `clean_label`, `aggre_label`, `worse_label` and
`random_label1` to `3`; `CIFAR-100_human.pt` holds `clean_label` and `noisy_label`, and the same
for super-classes. The authors' `*_ordered.npy`, and the csv made of it for TensorFlow, hold the
same arrays in another order, which `image_order_c10.npy` beside them undoes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from kspr.errors import InputError
from kspr.noise import CIFAR10, CIFAR100, CIFAR100_COARSE
from kspr.sources.formats import format_of
from kspr.sources.options import AS_FOUND, ReadOptions
from kspr.sources.published import (
    choose_split,
    damaged,
    missing,
    name_classes,
    read_lines,
)
from kspr.sources.published._cifar_files import (
    Batch,
    Pixels,
    load_npy,
    load_pickle,
    load_torch,
    read_binary,
    read_pickled,
)
from kspr.sources.readers.csv_tables import first_line
from kspr.sources.readers.label_files import read_label_columns, read_label_file
from kspr.sources.records import Records, number_texts

__all__ = ["CIFAR_10", "CIFAR_100", "Cifar"]


@dataclass(frozen=True)
class Labelling:
    """One of the label columns of a CIFAR file."""

    name: str
    key: str
    """In a pickled batch."""
    names_key: str
    """In the pickled meta file."""
    names_file: str
    """Of the binary version."""
    classes: tuple[str, ...]
    """As published; used where the file with the names is absent."""


@dataclass(frozen=True)
class Version:
    """One of the two forms in which a CIFAR set is published."""

    binary: bool
    folder: str
    archive: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    names: tuple[str, ...]
    """Files with class names."""

    def files(self) -> tuple[str, ...]:
        return (*self.train, *self.test, *self.names)


@dataclass(frozen=True)
class Cifar:
    """CIFAR-10 or CIFAR-100, in the python or the binary version."""

    name: str
    about: str
    versions: tuple[Version, ...]
    labellings: tuple[Labelling, ...]
    """In the order of the binary version's label bytes; the last is the default."""
    telling: int
    """How many of a version's files must be there for a folder to be recognised."""
    splits: tuple[str, ...] = ("train", "test")

    def files(self, root: Path) -> list[tuple[str, str]]:
        """Return the files of the version that is at `root`, or of the python version."""
        version, folder = self._version(root) or (self.versions[0], root)
        prefix = "" if folder == root else f"{folder.name}/"
        purposes = [
            *((name, "training images and labels") for name in version.train),
            *((name, "test images and labels") for name in version.test),
            *((name, "class names") for name in version.names),
        ]
        return [(prefix + name, purpose) for name, purpose in purposes]

    def present(self, root: Path) -> bool:
        """Return whether every training file of one version is at `root`."""
        located = self._version(root)
        return located is not None and all((located[1] / n).is_file() for n in located[0].train)

    def matches(self, path: Path) -> bool:
        """Return whether `path` is the folder or one of its batches.

        A folder that holds the extracted one counts if it has the data set's name: `data/` may
        hold much else.
        """
        root = path.parent if path.is_file() else path
        located = self._version(root)
        if located is None:
            return False
        if path.is_file():
            return located[1] == root and path.name in (*located[0].train, *located[0].test)
        return root in (located[1], root.parent / self.name)

    def read(self, path: Path, options: ReadOptions = AS_FOUND) -> Records:
        """Return a split, or the one batch that `path` names.

        `options.labels` is a file of other labels for the same rows, such as CIFAR-N's, and
        `options.label` the array in it, or the labelling (`fine`, `coarse`). With other labels,
        the published ones are the truth.
        """
        split = choose_split(options, self.splits, self.name, takes=("label",))
        version, folder = self._expect(path)
        chosen = version.test if split == "test" else version.train
        names = (path.name,) if path.is_file() else chosen
        batches = [self._batch(folder / name, version) for name in names]
        items = Pixels(tuple(batch.pixels for batch in batches))
        label, truth = self._labels(batches, version, folder, options)
        row_id = number_texts(np.arange(len(items)))
        return Records(path, self.name, row_id, label=label, items=items, truth=truth)

    def _version(self, root: Path) -> tuple[Version, Path] | None:
        for version in self.versions:
            for folder in (root, root / version.folder):
                if sum((folder / name).is_file() for name in version.files()) >= self.telling:
                    return version, folder
        return None

    def _expect(self, path: Path) -> tuple[Version, Path]:
        root = path.parent if path.is_file() else path
        located = self._version(root)
        if located is None:
            raise missing(root / self.versions[0].train[0], self.versions[0].archive)
        return located

    def _batch(self, path: Path, version: Version) -> Batch:
        keys = [labelling.key for labelling in self.labellings]
        if version.binary:
            return read_binary(path, keys, version.archive)
        return read_pickled(path, keys, version.archive)

    def _labels(
        self, batches: Sequence[Batch], version: Version, folder: Path, options: ReadOptions
    ) -> tuple[np.ndarray, np.ndarray | None]:
        labelling = self._labelling(options)
        codes = np.concatenate([batch.labels[labelling.key] for batch in batches])
        classes = self._classes(labelling, version, folder)
        if codes.min() < 0 or codes.max() >= len(classes):
            how = f"has labels outside 0..{len(classes) - 1}"
            raise damaged(folder, version.archive, how)
        if options.labels is None:
            return name_classes(codes, classes), None
        other = human_labels(options.labels, options.label, codes, classes)
        return other, name_classes(codes, classes)

    def _labelling(self, options: ReadOptions) -> Labelling:
        asked = options.label
        if options.labels is not None:
            # CIFAR-100N's arrays of super-classes say so in their name.
            asked = "coarse" if asked and "coarse" in asked else None
        if asked is None:
            return self.labellings[-1]
        for labelling in self.labellings:
            if asked in (labelling.name, labelling.key):
                return labelling
        known = ", ".join(labelling.name for labelling in self.labellings)
        raise InputError(f"{self.name} has no labels {asked!r}; it has {known}.")

    def _classes(self, labelling: Labelling, version: Version, folder: Path) -> Sequence[str]:
        if version.binary:
            path = folder / labelling.names_file
            return read_lines(path, version.archive) if path.is_file() else labelling.classes
        path = folder / version.names[0]
        if not path.is_file():
            return labelling.classes
        meta = load_pickle(path, version.archive)
        if not isinstance(meta, dict) or not isinstance(meta.get(labelling.names_key), list):
            raise damaged(path, version.archive, f"has no {labelling.names_key}")
        # Bytes where Python 2 wrote the pickle, text where someone has saved it again.
        try:
            return [
                n.decode() if isinstance(n, bytes) else str(n) for n in meta[labelling.names_key]
            ]
        except UnicodeDecodeError as error:
            raise damaged(path, version.archive, "has class names that are not text") from error


_ORIGIN = "the CIFAR-N release (cifar-10-100n)"
# aggre_label is the majority of three people (CIFAR-10N); CIFAR-100N has noisy_label.
_DEFAULTS = ("aggre_label", "noisy_label", "noise_label", "label")
_ALIASES = {
    "aggre": "aggre_label",
    "clean": "clean_label",
    "noisy": "noisy_label",
    "rand1": "random_label1",
    "rand2": "random_label2",
    "rand3": "random_label3",
    "worse": "worse_label",
    "worst": "worse_label",
}
"""The names that CIFAR-N's own training script gives to its arrays."""
_ORDERS = ("image_order_c10.npy", "image_order_c100.npy")


def human_labels(
    path: Path, array: str | None, published: np.ndarray, classes: Sequence[str]
) -> np.ndarray:
    """Return the class names in one array of the label file `path`, in CIFAR's own order.

    `published` are CIFAR's labels of the same rows, as numbers: the file's clean labels must be
    equal to them, so that a file in another order is never taken for noise. Any other file of
    labels has no clean ones and is taken as it is.
    """
    arrays = _read(path, array)
    chosen = _choose(path, arrays, array)
    labels = arrays[chosen]
    if len(labels) != len(published):
        raise InputError(f"{path} has {len(labels)} labels but there are {len(published)} images.")
    clean = arrays.get("clean_coarse_label" if "coarse" in chosen else "clean_label")
    if clean is not None:
        labels = labels[_order(path, _codes(path, clean, classes), published)]
    return name_classes(_codes(path, labels, classes), classes)


def _read(path: Path, array: str | None) -> dict[str, np.ndarray]:
    """Return the arrays of a CIFAR-N file, or the one column of any other file of labels."""
    if not path.exists():
        raise missing(path, _ORIGIN)
    known = format_of(path)
    name = "" if known is None else known.name
    if path.suffix.lower() in (".pt", ".pth"):
        content = load_torch(path, _ORIGIN)
    elif name == "npy":
        content = load_npy(path, _ORIGIN)
    elif name == "csv" and b"clean_label" in first_line(path):
        # The table that TensorFlow's users make of CIFAR-N's npy file.
        return read_label_columns(path)
    else:
        return {array or "label": read_label_file(path, "label", array)}
    if isinstance(content, np.ndarray):
        content = {array or "label": content}
    if not isinstance(content, dict):
        raise damaged(path, _ORIGIN, "holds no arrays of labels")
    return {str(name): _column(path, name, values) for name, values in content.items()}


def _column(path: Path, name: Any, values: Any) -> np.ndarray:
    column = np.asarray(values)
    if column.ndim != 1 or column.dtype.kind not in "iuU":
        raise damaged(path, _ORIGIN, f"has an array {name} that is no column of labels")
    return column


def _choose(path: Path, arrays: dict[str, np.ndarray], asked: str | None) -> str:
    if asked is None:
        candidates = [name for name in _DEFAULTS if name in arrays] or list(arrays)[:1]
    else:
        candidates = [name for name in (asked, _ALIASES.get(asked, "")) if name in arrays]
    if candidates:
        return candidates[0]
    # cutoff=0: the nearest names, however far; three at most, the best first.
    known = get_close_matches(asked or "", arrays, cutoff=0) or list(arrays)
    raise InputError(f"{path} has no array {asked!r}; it has {', '.join(known)}.")


def _codes(path: Path, labels: np.ndarray, classes: Sequence[str]) -> np.ndarray:
    """Return class numbers, from numbers or names."""
    number = {str(i): i for i in range(len(classes))} | {name: i for i, name in enumerate(classes)}
    # Per distinct value: 50,000 labels have at most 100 of them.
    values, inverse = np.unique(labels, return_inverse=True)
    unknown = [str(value) for value in values if str(value) not in number]
    if unknown:
        raise InputError(
            f"{path} has the label {unknown[0]!r}; "
            f"labels are class names or numbers in 0..{len(classes) - 1}."
        )
    return np.asarray([number[str(value)] for value in values], np.intp)[inverse]


def _order(path: Path, clean: np.ndarray, published: np.ndarray) -> np.ndarray:
    """Return the positions in the file of CIFAR's rows, one after the other."""
    # Without this check, labels in another order would look like noise of 90 %.
    same = np.arange(len(published))
    if np.array_equal(clean, published):
        return same
    for name in _ORDERS:
        for folder in (path.parent, path.parent.parent):
            if (folder / name).is_file():
                # The file has the CIFAR row of each label; argsort inverts a permutation.
                order = np.argsort(np.asarray(load_npy(folder / name, _ORIGIN)), kind="stable")
                # argsort always gives a permutation: the first test is for its length.
                if np.array_equal(np.sort(order), same) and np.array_equal(clean[order], published):
                    return order
    raise InputError(
        f"{path} has clean labels that differ from CIFAR's in {int((clean != published).sum())} "
        "rows, so its order is another one; use the .pt file, or put image_order_c10.npy (or "
        "c100) beside it."
    )


_TRAIN = tuple(f"data_batch_{i}" for i in range(1, 6))

CIFAR_10 = Cifar(
    name="cifar10",
    about="CIFAR-10, python or binary version; CIFAR-10N's labels with --labels",
    versions=(
        Version(
            binary=False,
            folder="cifar-10-batches-py",
            archive="cifar-10-python.tar.gz",
            train=_TRAIN,
            test=("test_batch",),
            names=("batches.meta",),
        ),
        Version(
            binary=True,
            folder="cifar-10-batches-bin",
            archive="cifar-10-binary.tar.gz",
            train=tuple(f"{name}.bin" for name in _TRAIN),
            test=("test_batch.bin",),
            names=("batches.meta.txt",),
        ),
    ),
    labellings=(
        Labelling(
            name="labels",
            key="labels",
            names_key="label_names",
            names_file="batches.meta.txt",
            classes=CIFAR10,
        ),
    ),
    # Nothing else is called data_batch_1.
    telling=1,
)

CIFAR_100 = Cifar(
    name="cifar100",
    about="CIFAR-100, python or binary version; CIFAR-100N's labels with --labels",
    versions=(
        Version(
            binary=False,
            folder="cifar-100-python",
            archive="cifar-100-python.tar.gz",
            train=("train",),
            test=("test",),
            names=("meta",),
        ),
        Version(
            binary=True,
            folder="cifar-100-binary",
            archive="cifar-100-binary.tar.gz",
            train=("train.bin",),
            test=("test.bin",),
            names=("fine_label_names.txt", "coarse_label_names.txt"),
        ),
    ),
    labellings=(
        Labelling(
            name="coarse",
            key="coarse_labels",
            names_key="coarse_label_names",
            names_file="coarse_label_names.txt",
            classes=CIFAR100_COARSE,
        ),
        Labelling(
            name="fine",
            key="fine_labels",
            names_key="fine_label_names",
            names_file="fine_label_names.txt",
            classes=CIFAR100,
        ),
    ),
    # Files called train and test are not rare; two of the three names together are.
    telling=2,
)
