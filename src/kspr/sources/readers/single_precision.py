"""Features in single precision: the same numbers in every format, so the same answer.

A CSV file does not say in which precision its numbers were computed, and selection needs no more
than single precision. So numbers of every other type become single precision when they are read.
"""

from collections.abc import Sequence

import numpy as np

from kspr.errors import InputError
from kspr.sources.readers._spill import RowSink
from kspr.sources.readers.file_checks import listed

__all__ = ["Narrowing", "as_single"]

_BLOCK_BYTES = 16 << 20
_EXACT = (np.dtype(np.float32), np.dtype(np.float16))
"""Types whose numbers single precision holds; half precision is widened where it is used."""
_LOST = 1e-3
"""Rounding error, as a share of a column's range, above which rows may no longer differ."""


class Narrowing:
    """Turns blocks of numbers into single precision, and remembers what that loses."""

    def __init__(self, names: Sequence[str], what: str) -> None:
        self._names, self._what = names, what
        self._low, self._high, self._error = np.inf, -np.inf, 0.0
        self._row = 0

    def __call__(self, block: np.ndarray) -> np.ndarray:
        """Return the next block in single precision; raise if a number is too large for it."""
        start, self._row = self._row, self._row + len(block)
        if block.dtype in _EXACT:
            return block.astype(np.float32, copy=False)
        # Through double precision, as a number in a text file: each is rounded the same way.
        wide = block.astype(np.float64, copy=False)
        with np.errstate(over="ignore"):
            single = wide.astype(np.float32)
        self._check_range(wide, single, start)
        with np.errstate(invalid="ignore"):
            error = np.fmax.reduce(np.abs(wide - single), axis=0, initial=0.0)
        self._error = np.fmax(self._error, error)
        self._low = np.fmin(self._low, np.fmin.reduce(wide, axis=0))
        self._high = np.fmax(self._high, np.fmax.reduce(wide, axis=0))
        return single

    def _check_range(self, wide: np.ndarray, single: np.ndarray, start: int) -> None:
        lost = np.isinf(single) & np.isfinite(wide)
        if lost.any():
            row, column = np.argwhere(lost)[0]
            raise InputError(
                f"{self._place(column)} must lie within 3.4e38, got {wide[row, column]:.3g} in row "
                f"{start + row}. Scale the column, or take its logarithm."
            )

    def _place(self, column: int) -> str:
        name = f"Feature column {self._names[column]!r} of " if self._names else ""
        return f"{name}{self._what}"

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence about columns whose rows differ by less than single precision can show."""
        spread = np.asarray(self._high) - np.asarray(self._low)
        blurred = np.flatnonzero((self._error > _LOST * spread) & (spread > 0))
        if not blurred.size:
            return ()
        columns = [self._names[i] if self._names else str(i) for i in blurred.tolist()]
        return (
            f"{self._what}: the values of {listed(columns, 3)} lie too close together for single "
            "precision. Subtract their mean and save the file again.",
        )


def as_single(array: np.ndarray, what: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return an array of numbers in single or half precision, and notes on what was lost.

    An array in either of them stays what it is, for example a memory map.
    """
    if array.dtype in _EXACT:
        return array, ()
    narrowing = Narrowing((), what)
    sink = RowSink(array.shape[1], np.dtype(np.float32), len(array))
    step = max(1, _BLOCK_BYTES // max(1, array.shape[1] * array.dtype.itemsize))
    try:
        for start in range(0, len(array), step):
            sink.append(narrowing(array[start : start + step]))
    except BaseException:
        sink.discard()
        raise
    return sink.result(), narrowing.notes
