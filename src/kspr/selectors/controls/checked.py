"""Rows that a person has checked: what they vouch for."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kspr.core.calibration import CheckedCut, checked_cut
from kspr.core.labels import Labels, same_label
from kspr.errors import InputError

__all__ = ["Checked", "read_checked"]

_LEVELS = (0.5, 1.0)
_SHARES = (0.25, 0.5)
"""The search starts from what the estimate keeps at these parts of q, and from these shares."""


@dataclass(frozen=True, eq=False)
class Checked:
    """Checked rows, whether their labels are right, and how sure the answer shall be.

    Rows of which only right ones are known say nothing of the wrong: they do not `calibrate`.
    """

    rows: np.ndarray
    right: np.ndarray
    confidence: float
    calibrate: bool = True

    def cut(self, doubt: np.ndarray, q_value: np.ndarray, q: float) -> CheckedCut:
        """Return the loosest cut on `doubt` that keeps `q`, with this confidence, on these rows.

        The search starts from as many samples as the estimate would keep, and, should that be far
        too many, from fixed shares of them.
        """
        ordered = np.sort(doubt[np.isfinite(doubt)])
        sizes = {int(np.sum(q_value <= part * q)) for part in _LEVELS}
        sizes |= {int(part * len(ordered)) for part in _SHARES}
        starts = np.unique([ordered[min(size, len(ordered)) - 1] for size in sizes - {0}])
        return checked_cut(doubt[self.rows], self.right, q, self.confidence, starts)

    def applied(self, keep: np.ndarray) -> np.ndarray:
        """Return `keep` with the checked rows as they were found."""
        known = keep.copy()
        known[self.rows] = self.right
        return known


def read_checked(checked: Any, labels: Labels, confidence: float) -> Checked:
    """Return what `checked` says: a mask of right rows, or a pair (rows, true labels)."""
    n = len(labels.codes)
    if isinstance(checked, tuple) and len(checked) == 2:
        rows = np.asarray(checked[0])
        _check_rows(rows, n)
        truth = np.asarray(checked[1])
        if truth.shape != rows.shape:
            raise InputError(
                f"checked must be a pair of equal length: {len(rows)} rows, but {len(truth)} true "
                "labels."
            )
        right = same_label(labels.values[rows], truth)
        return Checked(rows.astype(np.int64), right, confidence)
    mask = np.asarray(checked)
    if mask.dtype != bool or mask.shape != (n,):
        raise InputError(
            "checked must be a mask of one bool per row, or a pair (rows, true labels); got "
            f"{mask.dtype} of shape {mask.shape} for {n} rows."
        )
    rows = np.flatnonzero(mask)
    return Checked(rows, np.ones(len(rows), dtype=bool), confidence, calibrate=False)


def _check_rows(rows: np.ndarray, n: int) -> None:
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise InputError(f"The rows in checked must be whole numbers, got {rows.dtype}.")
    outside = rows[(rows < 0) | (rows >= n)]
    if outside.size:
        raise InputError(f"checked speaks of row {outside[0]}, but X has {n} rows.")
    if len(np.unique(rows)) < len(rows):
        raise InputError("checked names a row twice. Keep one answer per row.")
