"""Numbers as one array in single precision, from columns of numbers, one column of lists, arrays.

A CSV file does not say in which precision its numbers were computed, and selection needs no more
than single precision. So numbers of every other type become single precision when they are read:
the same numbers in every format, and so the same answer.
"""

import tempfile
from collections.abc import Sequence
from itertools import chain
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kspr.errors import InputError
from kspr.sources.readers.csv_tables import is_number
from kspr.sources.readers.file_checks import BLOCK_BYTES, IN_MEMORY, listed, map_bytes, room, shown
from kspr.sources.readers.roles import is_list, is_numeric
from kspr.sources.readers.table import Field, Table

__all__ = ["FeatureBuilder", "SingleRows", "as_single", "check_numeric"]

_EXACT = (np.dtype(np.float32), np.dtype(np.float16))
"""Types whose numbers single precision holds; half precision is widened where it is used."""
_LOST = 1e-3
"""Rounding error, as a share of a column's range, above which rows may no longer differ."""


class SingleRows:
    """Blocks of rows in single precision, one array in the end; remembers what is lost by that.

    In memory while they are few, then in a temporary file, which has no name, and is gone when
    nothing refers to it any more. `names` are those of the columns, `what` that of all in errors;
    `n_rows` are as many as are expected, where that is known.
    """

    def __init__(
        self, width: int, n_rows: int | None = None, what: str = "", names: Sequence[str] = ()
    ) -> None:
        self._width, self._expected = width, n_rows or 0
        self._what, self._names = what, names
        self._low, self._high, self._error = np.inf, -np.inf, 0.0
        self._rows = 0
        self._blocks: list[np.ndarray] = []
        self._file: IO[bytes] | None = None

    def append(self, block: np.ndarray) -> None:
        """Add a block of shape ``(rows, width)``; raise if a number is too large."""
        # A copy: the block may lie in a file, or in Arrow's memory.
        single = block.astype(np.float32, "C") if block.dtype in _EXACT else self._narrowed(block)
        self._blocks.append(single)
        self._rows += len(block)
        rows = max(self._rows, self._expected)
        if self._file is None and rows * self._width * 4 > IN_MEMORY:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed when it is mapped
        if self._file is not None:
            with room():
                while self._blocks:
                    self._file.write(self._blocks.pop(0).data)

    def _narrowed(self, block: np.ndarray) -> np.ndarray:
        # Through double precision, as a number in a text file: each is rounded the same way.
        wide = block.astype(np.float64, copy=False)
        with np.errstate(over="ignore", invalid="ignore"):
            single = wide.astype(np.float32, "C")
            error = np.fmax.reduce(np.abs(wide - single), axis=0, initial=0.0)
        lost = np.isinf(single) & np.isfinite(wide)
        if lost.any():
            row, column = np.argwhere(lost)[0]
            name = f"Feature column {self._names[column]!r} of " if self._names else ""
            raise InputError(
                f"{name}{self._what} must lie within 3.4e38, got {wide[row, column]:.3g} in row "
                f"{self._rows + row}. Scale the column, or take its logarithm."
            )
        self._error = np.fmax(self._error, error)
        self._low = np.fmin(self._low, np.fmin.reduce(wide, axis=0))
        self._high = np.fmax(self._high, np.fmax.reduce(wide, axis=0))
        return single

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

    def result(self) -> np.ndarray:
        """Return all rows: an array, or a memory map of the temporary file."""
        if self._file is not None:
            return map_bytes(self._file, np.dtype(np.float32), (self._rows, self._width))
        array, start = np.empty((self._rows, self._width), np.float32), 0
        while self._blocks:
            # One after the other, so that the rows are never held twice.
            block = self._blocks.pop(0)
            array[start : start + len(block)] = block
            start += len(block)
        return array


def as_single(array: np.ndarray, what: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return an array of numbers in single or half precision, and notes on what was lost.

    An array in either of them stays what it is, for example a memory map.
    """
    if array.dtype in _EXACT:
        return array, ()
    rows = SingleRows(array.shape[1], len(array), what)
    step = max(1, BLOCK_BYTES // max(1, array.shape[1] * array.dtype.itemsize))
    for start in range(0, len(array), step):
        rows.append(array[start : start + step])
    return rows.result(), rows.notes


class FeatureBuilder:
    """Collects blocks of the feature columns into one array in single precision."""

    def __init__(self, fields: Sequence[Field], where: str, n_rows: int | None) -> None:
        self._lists = is_list(fields[0].type)
        self._dtype = np.result_type(*(_dtype(field.type) for field in fields))
        names = () if self._lists else [field.name for field in fields]
        self._about = (n_rows, where if names else f"Feature column {fields[0].name!r}", names)
        self._what = f"Feature column {fields[0].name!r} of {where}"
        self._rows: SingleRows | None = None
        self._width = len(fields)
        self._row = 0

    def append(self, arrays: Sequence[pa.Array]) -> None:
        """Add one block: the arrays of the feature columns."""
        if not len(arrays[0]):
            return
        block = self._flat(arrays[0]) if self._lists else self._stacked(arrays)
        if self._rows is None:
            self._rows = SingleRows(block.shape[1], *self._about)
        self._rows.append(block)
        self._row += len(block)

    def result(self) -> np.ndarray:
        """Return all rows."""
        return self._rows.result() if self._rows else np.empty((0, 0), np.float32)

    @property
    def notes(self) -> tuple[str, ...]:
        """What single precision loses of the columns."""
        return self._rows.notes if self._rows else ()

    def _stacked(self, arrays: Sequence[pa.Array]) -> np.ndarray:
        block = np.empty((len(arrays[0]), len(arrays)), self._dtype)
        # The rows of `block.T` are views of the columns of `block`.
        for column, array in zip(block.T, arrays, strict=True):
            column[:] = _numbers(array)
        return block

    def _flat(self, array: pa.Array) -> np.ndarray:
        # A missing list counts as empty, and is refused below with its row.
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        if self._rows is None:
            self._width = int(lengths[0])
        odd = np.flatnonzero(lengths != self._width)
        if odd.size or not self._width:
            row = int(odd[0]) if odd.size else 0
            raise InputError(
                f"{self._what} must hold lists of one length: row 0 has {self._width} values, row "
                f"{self._row + row} has {lengths[row]}. Drop or mend such rows."
            )
        # Not `.values`, which ignores where a slice begins.
        return _numbers(array.flatten()).reshape(len(array), self._width)


def check_numeric(table: Table, fields: Sequence[Field], where: str) -> None:
    """Raise if a column is neither of numbers nor of lists of numbers; name one of its values."""
    for field in fields:
        if is_numeric(field.type) or (len(fields) == 1 and is_list(field.type)):
            continue
        value = _first_value(table, field)
        raise InputError(
            f"Feature column {field.name!r} of {where} must hold numbers, got {shown(value)} "
            f"({field.type}). Name other columns with --features."
        )


def _first_value(table: Table, field: Field) -> Any:
    """Return the first value that is no number, or just the first."""
    cells = (cell for (array,) in table.batches([field]) for cell in array if cell.is_valid)
    values = (cell.as_py() for cell in cells)
    first = next(values, None)
    return next((v for v in chain([first], values) if not is_number(str(v))), first)


def _dtype(kind: pa.DataType) -> np.dtype[Any]:
    """Return a precision that holds the numbers of a column exactly, where there is one."""
    kind = kind.value_type if is_list(kind) else kind
    if pa.types.is_boolean(kind):
        return np.dtype(np.float32)
    exact = kind.bit_width <= (32 if pa.types.is_floating(kind) else 16)
    return np.dtype(np.float32 if exact else np.float64)


def _numbers(array: pa.Array) -> np.ndarray:
    """Return numbers, NaN where there are none."""
    # to_numpy gives NaN for a missing number, but Python objects for booleans with gaps and for
    # decimals.
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    elif pa.types.is_decimal(array.type):
        array = array.cast(pa.float64())
    return np.asarray(array.to_numpy(zero_copy_only=False))
