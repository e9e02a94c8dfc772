"""CIFAR-10 and CIFAR-100, and the labels of CIFAR-10N and CIFAR-100N for their images.

50,000 + 10,000 images of 32 x 32 pixels in 10 or 100 classes. CIFAR-N's labels were given by people
on the internet: `CIFAR-10_human.pt` holds `clean_label`, `aggre_label`, `worse_label` and
`random_label1` to `3`; `CIFAR-100_human.pt` holds `clean_label` and `noisy_label`, and the same
for super-classes. The authors' `*_ordered.npy`, and the csv made of it for TensorFlow, hold the
same arrays in another order, which `image_order_c10.npy` beside them undoes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kspr.errors import InputError
from kspr.noise import CIFAR10, CIFAR100, CIFAR100_COARSE
from kspr.sources.formats import format_of
from kspr.sources.joining import read_label_file
from kspr.sources.options import AS_FOUND, ReadOptions
from kspr.sources.published import choose_split, damaged, missing, name_classes
from kspr.sources.published._cifar_files import (
    Pixels,
    load_npy,
    load_torch,
    read_binary,
    read_pickled,
)
from kspr.sources.readers.csv_tables import first_line, open_csv_table
from kspr.sources.readers.file_checks import no_such, plain_text
from kspr.sources.readers.values import whole_labels
from kspr.sources.records import Records, number_texts


@dataclass(frozen=True)
class Version:
    """One of the two forms in which a CIFAR set is published."""

    folder: str
    archive: str
    train: tuple[str, ...]
    test: str
    names: tuple[str, ...]
    """Files with class names: a folder is recognised by them, too."""


@dataclass(frozen=True)
class Cifar:
    """CIFAR-10 or CIFAR-100, in the python or the binary version."""

    name: str
    about: str
    versions: tuple[Version, ...]
    labels: Mapping[str, Sequence[str]]
    """Class names by the key of the labels in a pickled batch, in the order of the binary version's
    label bytes; the last is the default."""
    telling: int
    """How many of a version's files must be there for a folder to be recognised."""
    splits: tuple[str, ...] = ("train", "test")

    def files(self, root: Path) -> list[tuple[str, str]]:
        """Return the files of the version that is at `root`, or of the python version."""
        version, folder = self._version(root) or (self.versions[0], root)
        prefix = "" if folder == root else f"{folder.name}/"
        purposes = {
            **dict.fromkeys(version.train, "training images and labels"),
            version.test: "test images and labels",
        }
        return [(prefix + name, purpose) for name, purpose in purposes.items()]

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
        version, folder = located
        if path.is_file():
            return folder == root and path.name in (*version.train, version.test)
        return root in (folder, root.parent / self.name)

    def read(self, path: Path, options: ReadOptions = AS_FOUND) -> Records:
        """Return a split, or the one batch that `path` names.

        `options.labels` is a file of other labels for the same rows, such as CIFAR-N's, and
        `options.label` the array in it, or the labelling (`fine`, `coarse`). With other labels,
        the published ones are the truth.
        """
        split = choose_split(options, self.splits, self.name, takes=("label",))
        root = path.parent if path.is_file() else path
        version, folder = self._version(root) or (self.versions[0], root)
        chosen = (version.test,) if split == "test" else version.train
        read = read_binary if "binary" in version.archive else read_pickled
        batches = [
            read(folder / name, list(self.labels), version.archive)
            for name in ((path.name,) if path.is_file() else chosen)
        ]
        items = Pixels(np.concatenate([pixels for pixels, _ in batches]))
        key = self._labelling(options)
        codes, classes = np.concatenate([labels[key] for _, labels in batches]), self.labels[key]
        if codes.min() < 0 or codes.max() >= len(classes):
            raise damaged(folder, version.archive, f"has labels outside 0..{len(classes) - 1}")
        label, truth = name_classes(codes, classes), None
        if options.labels is not None:
            truth, label = label, human_labels(options.labels, options.label, codes, classes)
        row_id = number_texts(np.arange(len(items)))
        return Records(path, self.name, row_id, label, items=items, truth=truth)

    def _version(self, root: Path) -> tuple[Version, Path] | None:
        for version in self.versions:
            known = (*version.train, version.test, *version.names)
            for folder in (root, root / version.folder):
                if sum((folder / name).is_file() for name in known) >= self.telling:
                    return version, folder
        return None

    def _labelling(self, options: ReadOptions) -> str:
        """Return the key of the published labels that are asked for."""
        asked = options.label
        if options.labels is not None:
            # CIFAR-100N's arrays of super-classes say so in their name.
            asked = "coarse" if asked and "coarse" in asked else None
        if asked is None:
            return list(self.labels)[-1]
        known = {key.removesuffix("_labels"): key for key in self.labels}
        if asked not in known and asked not in self.labels:
            raise InputError(f"{self.name} has no labels {asked!r}; it has {', '.join(known)}.")
        return known.get(asked, asked)


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
    asked = _DEFAULTS if array is None else (array, _ALIASES.get(array, ""))
    chosen = next((name for name in asked if name in arrays), None)
    if chosen is None and array is not None:
        raise no_such(array, arrays, str(path), "array")
    labels = arrays[chosen := chosen or next(iter(arrays))]
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
    elif name == "csv" and "clean_label" in first_line(plain_text(path, "a CSV file")):
        # The table that TensorFlow's users make of CIFAR-N's npy file.
        table = open_csv_table(path)
        columns = zip(table.fields, table.read(list(table.fields.values())), strict=True)
        return {column: whole_labels(c, str(path), untyped=True) for column, c in columns}
    else:
        return {array or "label": read_label_file(path, "label", array)}
    if isinstance(content, np.ndarray):
        content = {array or "label": content}
    if not isinstance(content, dict) or not content:
        raise damaged(path, _ORIGIN, "holds no arrays of labels")
    return {str(name): _column(path, name, values) for name, values in content.items()}


def _column(path: Path, name: Any, values: Any) -> np.ndarray:
    column = np.asarray(values)
    if column.ndim != 1 or column.dtype.kind not in "iuU":
        raise damaged(path, _ORIGIN, f"has an array {name} that is no column of labels")
    return column


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
    beside = (folder / name for name in _ORDERS for folder in (path.parent, path.parent.parent))
    for file in filter(Path.is_file, beside):
        # The file has the CIFAR row of each label; argsort inverts a permutation.
        order = np.argsort(np.asarray(load_npy(file, _ORIGIN)), kind="stable")
        # argsort always gives a permutation: the first test is for its length.
        if np.array_equal(np.sort(order), same) and np.array_equal(clean[order], published):
            return order
    raise InputError(
        f"{path} has clean labels that differ from CIFAR's in {int((clean != published).sum())} "
        "rows, so its order is another one; use the .pt file, or put image_order_c10.npy (or "
        "c100) beside it."
    )


_TRAIN = tuple(f"data_batch_{i}" for i in range(1, 6))
_TRAIN_BIN = tuple(f"{name}.bin" for name in _TRAIN)
_PYTHON_10, _BINARY_10 = "cifar-10-python.tar.gz", "cifar-10-binary.tar.gz"
_PYTHON_100, _BINARY_100 = "cifar-100-python.tar.gz", "cifar-100-binary.tar.gz"
_NAMES_100 = ("coarse_label_names.txt", "fine_label_names.txt")

CIFAR_10 = Cifar(
    name="cifar10",
    about="CIFAR-10, python or binary version; CIFAR-10N's labels with --labels",
    versions=(
        Version("cifar-10-batches-py", _PYTHON_10, _TRAIN, "test_batch", ("batches.meta",)),
        Version(
            "cifar-10-batches-bin", _BINARY_10, _TRAIN_BIN, "test_batch.bin", ("batches.meta.txt",)
        ),
    ),
    labels={"labels": CIFAR10},
    # Nothing else is called data_batch_1.
    telling=1,
)

CIFAR_100 = Cifar(
    name="cifar100",
    about="CIFAR-100, python or binary version; CIFAR-100N's labels with --labels",
    versions=(
        Version("cifar-100-python", _PYTHON_100, ("train",), "test", ("meta",)),
        Version("cifar-100-binary", _BINARY_100, ("train.bin",), "test.bin", _NAMES_100),
    ),
    labels={"coarse_labels": CIFAR100_COARSE, "fine_labels": CIFAR100},
    # Files called train and test are not rare; two of the three names together are.
    telling=2,
)
