"""Class probabilities as users have them: whether they are any, and which column is which class."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kspr.core.arrays import to_numpy
from kspr.core.labels import Labels, as_label_array, name_rows, places_in
from kspr.errors import InputError
from kspr.selectors.validation import read_labels

__all__ = ["order_columns", "read_probabilities"]

_TOLERANCE = 0.01
"""How far the sum of a row may be from 1: half precision rounds, and tables have few digits."""


def read_probabilities(
    pred_probs: Any, y: Any, classes: Any, min_class_size: int
) -> tuple[np.ndarray, Labels]:
    """Return probabilities with one column per class of `y`, in sorted order, and the labels.

    `classes` names the columns; None takes the names of a data frame's columns, or else the sorted
    classes of `y`. Columns of classes that `y` lacks are left out, and the others made to sum to 1.
    """
    names = _names(pred_probs) if classes is None else as_label_array(classes).tolist()
    shown = _as_matrix(to_numpy(pred_probs))
    labels = read_labels(y, len(shown), min_class_size)
    if names is None:
        if shown.shape[1] != len(labels.classes):
            raise InputError(
                f"pred_probs has {shown.shape[1]} columns but y has {len(labels.classes)} classes. "
                "Pass classes=, the label of each column in order."
            )
        order = np.arange(shown.shape[1])
    else:
        if len(names) != shown.shape[1]:
            raise InputError(
                f"classes must name every column of pred_probs: it has {len(names)} labels for "
                f"{shown.shape[1]} columns."
            )
        order = order_columns(names, labels.classes)
    _check_values(shown)
    chosen = shown[:, order] / shown.sum(axis=1, keepdims=True)
    total = chosen.sum(axis=1, keepdims=True)
    # A row whose whole weight is on classes that y lacks doubts all others alike.
    even = np.full_like(chosen, 1.0 / chosen.shape[1])
    return np.divide(chosen, total, out=even, where=total > 0), labels


def _names(pred_probs: Any) -> list[Any] | None:
    columns = getattr(pred_probs, "columns", None)
    return None if columns is None else list(columns)


def order_columns(names: Sequence[Any], classes: np.ndarray) -> np.ndarray:
    """Return the column of each class, by the columns' names.

    Names may share a prefix, as in ``p_cat`` and ``p_dog``. Numbers from 0 that are no classes
    stand for the sorted classes.

    >>> order_columns(["p_dog", "p_cat"], np.array(["cat", "dog"]))
    array([1, 0])
    """
    readings = _readings(names)
    for reading in readings:
        found = _by_name(reading, classes)
        if found is not None:
            return found
    numbers = [str(k) for k in range(len(classes))]
    if any(list(map(str, reading)) == numbers for reading in readings):
        return np.arange(len(classes))
    some = ", ".join(map(repr, list(names)[:4]))
    raise InputError(
        f"The columns of probabilities ({some}{', ...' * (len(names) > 4)}) do not name the class "
        f"{_first_missing(readings, classes)!r}. Name every column like its class, or say with "
        "classes= which column is which."
    )


def _readings(names: Sequence[Any]) -> list[list[Any]]:
    """Return the names as they are, and without each of the prefixes that all of them share."""
    found = [list(names)]
    if all(isinstance(name, str) for name in names):
        shortest = min(map(len, names))
        for length in range(1, shortest):
            if len({name[:length] for name in names}) > 1:
                break
            found.append([name[length:] for name in names])
    return found


def _by_name(names: list[Any], classes: np.ndarray) -> np.ndarray | None:
    """Return the position of each class among `names`; None unless each is there once."""
    place = places_in(classes, np.array(names))
    column = np.full(len(classes), -1)
    column[place[place >= 0]] = np.flatnonzero(place >= 0)
    once = np.bincount(place[place >= 0], minlength=len(classes))
    return column if (once == 1).all() else None


def _first_missing(readings: list[list[Any]], classes: np.ndarray) -> Any:
    """Return the first class without a column, in the reading that leaves out the fewest."""
    places = [places_in(classes, np.array(reading)) for reading in readings]
    found = max(places, key=lambda place: len(np.unique(place[place >= 0])))
    return next(c for k, c in enumerate(classes.tolist()) if (found == k).sum() != 1)


def _as_matrix(values: np.ndarray) -> np.ndarray:
    """Return numbers with two axes, in double precision."""
    if values.ndim != 2:
        raise InputError(
            f"pred_probs must have two dimensions (rows, classes), got shape {values.shape}."
        )
    if values.dtype.kind not in "fiub":
        raise InputError(f"pred_probs must hold numbers, got {values.dtype}.")
    if not len(values):
        raise InputError("pred_probs has no rows.")
    return values.astype(np.float64)


def _check_values(shown: np.ndarray) -> None:
    """Raise with what the numbers are, if they are no probabilities."""
    bad = np.flatnonzero(~np.isfinite(shown).all(axis=1))
    if bad.size:
        raise InputError(f"pred_probs holds NaN or inf in {name_rows(bad)}. Drop these rows.")
    total = shown.sum(axis=1)
    if (shown <= 0).all() and np.allclose(np.exp(shown).sum(axis=1), 1.0, atol=_TOLERANCE):
        raise InputError("pred_probs holds log-probabilities. Pass np.exp(pred_probs).")
    negative = np.flatnonzero((shown < 0).any(axis=1))
    if negative.size:
        raise InputError(
            f"pred_probs must not be negative, got {shown[negative[0]].min():g} in row "
            f"{negative[0]}. Logits become probabilities by scipy.special.softmax(logits, axis=1)."
        )
    off = np.flatnonzero(np.abs(total - 1.0) > _TOLERANCE)
    if off.size:
        if np.allclose(total, 100.0, atol=1.0):
            raise InputError("pred_probs holds percentages. Divide by 100.")
        raise InputError(
            f"Every row of pred_probs must sum to 1; row {off[0]} sums to {total[off[0]]:g}. "
            "Logits become probabilities by scipy.special.softmax(logits, axis=1); outputs of one "
            "sigmoid per class are no probabilities of classes that exclude each other."
        )
