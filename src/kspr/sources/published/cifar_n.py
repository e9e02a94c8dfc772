"""CIFAR-10N and CIFAR-100N: labels that people on the internet gave to CIFAR's images.

`CIFAR-10_human.pt` holds `clean_label`, `aggre_label`, `worse_label` and `random_label1` to `3`;
`CIFAR-100_human.pt` holds `clean_label` and `noisy_label`, and the same for super-classes. The
authors' `*_ordered.npy`, and the csv made of it for TensorFlow, hold the same arrays in another
order, which `image_order_c10.npy` beside them undoes.
"""

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from kspr.errors import InputError
from kspr.sources.formats import format_of
from kspr.sources.published._layout import damaged, missing, name_classes
from kspr.sources.published._pickles import load_npy, load_torch
from kspr.sources.readers._csv_table import first_line
from kspr.sources.readers.label_files import read_label_columns, read_label_file

__all__ = ["human_labels"]

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
