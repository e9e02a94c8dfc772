"""Rows that a person has checked, and the cut-off that they give for any noise."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kspr.core.calibration import CheckedCut, checked_cut
from kspr.core.labels import Labels, same_label
from kspr.errors import InputError

__all__ = ["Checked", "read_checked"]

_LEVELS = (0.5, 1.0)
_SHARES = (0.25, 0.5)
"""The search starts where the estimate keeps these parts of q, and at these shares of all rows."""


@dataclass(frozen=True, eq=False)
class Checked:
    """Checked rows, whether their labels are right, and the confidence asked for."""

    rows: np.ndarray
    right: np.ndarray
    confidence: float
    """Probability that the error rate holds."""
    calibrate: bool = True
    """Whether the rows set the cut-off. A mask of right rows cannot: it has no wrong ones."""

    def cut(self, doubt: np.ndarray, q_value: np.ndarray, q: float) -> CheckedCut:
        """Return the loosest cut-off on `doubt` that holds `q` with this confidence.

        The search starts at as many samples as the estimate would keep and, in case these are far
        too many, at fixed shares of all samples.
        """
        # Labels that lost to their knockoff have infinite doubt, and no cut-off keeps them.
        ordered = np.sort(doubt[np.isfinite(doubt)])
        sizes = {int(np.sum(q_value <= part * q)) for part in _LEVELS}
        sizes |= {int(part * len(ordered)) for part in _SHARES}
        # Without 0, whose position -1 would be the loosest cut-off of all.
        starts = np.unique([ordered[min(size, len(ordered)) - 1] for size in sizes - {0}])
        return checked_cut(doubt[self.rows], self.right, q, self.confidence, starts)

    def applied(self, keep: np.ndarray) -> np.ndarray:
        """Return `keep` with right checked rows added and wrong ones removed."""
        known = keep.copy()
        known[self.rows] = self.right
        return known


def read_checked(checked: Any, labels: Labels, confidence: float) -> Checked:
    """Return the checked rows, given as a mask of right rows or a pair (rows, true labels)."""
    n = len(labels.codes)
    if isinstance(checked, tuple) and len(checked) == 2:
        rows = np.asarray(checked[0])
        _check_rows(rows, n)
        truth = np.asarray(checked[1])
        if truth.shape != rows.shape:
            raise InputError(
                f"`checked` must hold one true label per row, got {len(rows)} rows and "
                f"{len(truth)} true labels."
            )
        right = same_label(labels.values[rows], truth)
        return Checked(rows.astype(np.int64), right, confidence)
    mask = np.asarray(checked)
    if mask.dtype != bool or mask.shape != (n,):
        raise InputError(
            "`checked` must be a mask with one bool per row, or a pair (rows, true labels), got "
            f"{mask.dtype} of shape {mask.shape} for {n} rows."
        )
    rows = np.flatnonzero(mask)
    # A mask lists right rows only, chosen by the user: no error rate can be read from it.
    return Checked(rows, np.ones(len(rows), dtype=bool), confidence, calibrate=False)


def _check_rows(rows: np.ndarray, n: int) -> None:
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise InputError(f"The rows in `checked` must be whole numbers, got {rows.dtype}.")
    outside = rows[(rows < 0) | (rows >= n)]
    if outside.size:
        raise InputError(f"`checked` lists row {outside[0]}, but X has {n} rows.")
    numbers, times = np.unique(rows, return_counts=True)
    if len(numbers) < len(rows):
        twice = numbers[times > 1][0]
        raise InputError(f"`checked` lists row {twice} twice. Keep one answer per row.")
