"""Labels of several annotators as users have them: a table with gaps, or one line per label."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kspr.core.arrays import to_numpy
from kspr.core.dawid_skene import Votes
from kspr.core.labels import encode_labels, missing_labels
from kspr.errors import InputError

__all__ = ["Crowd", "read_votes"]


@dataclass(frozen=True, eq=False)
class Crowd:
    """Labels of several annotators, as codes, and what the codes stand for."""

    votes: Votes
    annotators: np.ndarray
    """Names of the annotators: of the columns, or as a long table has them."""
    classes: np.ndarray
    """The distinct labels, sorted."""


def read_votes(y: Any, n_rows: int) -> Crowd:
    """Return the labels `y` of `n_rows` rows; raise `InputError` if the truth cannot be found.

    `y` is a table with one column per annotator, or a tuple (row numbers, annotators, labels).
    Where two labels of a row are nowhere given, nothing tells errors from the truth.
    """
    if isinstance(y, tuple):
        row, annotator, label = _from_lines(y, n_rows)
        given = encode_labels(annotator, "annotators")
        annotators, annotator = given.classes, given.codes
    else:
        row, annotator, label, annotators = _from_table(y, n_rows)
    labels = encode_labels(label, "y")
    _check(row, annotator, annotators, n_rows)
    votes = Votes(row, annotator, labels.codes, n_rows, len(labels.classes))
    return Crowd(votes, annotators, labels.classes)


def _from_table(y: Any, n_rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    table = to_numpy(y)
    if table.ndim != 2:
        raise InputError(
            f"y must have one column per annotator, got an array of shape {table.shape}. For one "
            "label a row, use KnockoffsSPR."
        )
    if len(table) != n_rows:
        raise InputError(f"X has {n_rows} rows but y has {len(table)}.")
    names = getattr(y, "columns", None)
    annotators = np.arange(table.shape[1]) if names is None else np.array(list(names))
    row, annotator = np.divmod(np.flatnonzero(_given(table.ravel())), table.shape[1])
    return row, annotator, _plain(table[row, annotator]), annotators


def _from_lines(y: tuple[Any, ...], n_rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if len(y) != 3 or len({len(part) for part in y}) > 1:
        raise InputError(
            "A tuple y must hold three columns of one length: row numbers, annotators and labels."
        )
    row, annotator, label = (to_numpy(part) for part in y)
    if row.dtype.kind not in "iu" or (row < 0).any() or (row >= n_rows).any():
        raise InputError(f"The row numbers in y must be whole numbers from 0 to {n_rows - 1}.")
    given = _given(label)
    return row[given].astype(np.int64), annotator[given], _plain(label[given])


def _given(values: np.ndarray) -> np.ndarray:
    """Return which entries are labels: not None or NaN, no empty text, no -1 among numbers."""
    given = np.ones(len(values), dtype=bool)
    given[missing_labels(values)] = False
    if values.dtype.kind == "i":
        given &= values != -1
    elif values.dtype.kind == "U":
        given &= values != ""
    elif values.dtype.kind == "O":
        given &= np.array([not (isinstance(value, str) and value == "") for value in values])
    return given


def _plain(values: np.ndarray) -> np.ndarray:
    """Return labels in the type that they would have without gaps."""
    if values.dtype.kind == "O":
        return np.array(values.tolist())
    # NaN for a gap turns whole numbers into floats.
    if values.dtype.kind == "f" and (values == np.rint(values)).all():
        return values.astype(np.int64)
    return values


def _check(row: np.ndarray, annotator: np.ndarray, annotators: np.ndarray, n_rows: int) -> None:
    per_row = np.bincount(row, minlength=n_rows)
    if not per_row.all():
        empty = np.flatnonzero(per_row == 0)
        raise InputError(
            f"{len(empty):,} rows have no label of any annotator, the first is row {empty[0]}. "
            "Leave these rows out."
        )
    silent = np.flatnonzero(np.bincount(annotator, minlength=len(annotators)) == 0)
    if silent.size:
        raise InputError(
            f"Annotator {annotators[silent[0]]!s} has given no label. Leave the column out."
        )
    order = np.lexsort((annotator, row))
    twice = (np.diff(row[order]) == 0) & (np.diff(annotator[order]) == 0)
    if twice.any():
        at = order[np.flatnonzero(twice)[0]]
        raise InputError(
            f"Annotator {annotators[annotator[at]]!s} has labelled row {row[at]} twice. Keep one "
            "label."
        )
    if per_row.max() < 2:
        raise InputError(
            "No row has labels of two annotators, so that nothing tells their errors from the "
            "truth. Use KnockoffsSPR on the labels, or have some rows labelled twice."
        )
