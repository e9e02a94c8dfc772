"""Features from columns of numbers, or from one column of lists, block by block."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kspr.errors import InputError
from kspr.sources.readers._spill import RowSink
from kspr.sources.readers.file_checks import shown
from kspr.sources.readers.roles import is_list, is_numeric
from kspr.sources.readers.single_precision import Narrowing
from kspr.sources.readers.table import Field, Table

__all__ = ["FeatureBuilder", "check_numeric"]


class FeatureBuilder:
    """Collects blocks of the feature columns into one array in single precision."""

    def __init__(self, fields: Sequence[Field], rows: int | None, where: str) -> None:
        self._fields = fields
        self._lists = is_list(fields[0].type)
        self._dtype = np.result_type(*(_dtype(field.type) for field in fields))
        names = () if self._lists else [field.name for field in fields]
        self._narrow = Narrowing(names, where if names else f"Feature column {fields[0].name!r}")
        self._hint = rows
        self._what = f"Feature column {fields[0].name!r} of {where}"
        self._sink: RowSink | None = None
        self._width = len(fields)
        self._row = 0

    def append(self, arrays: Sequence[pa.Array]) -> None:
        """Add one block: the arrays of the feature columns."""
        if not len(arrays[0]):
            return
        block = self._flat(arrays[0]) if self._lists else self._stacked(arrays)
        if self._sink is None:
            self._sink = RowSink(block.shape[1], np.dtype(np.float32), self._hint)
        self._sink.append(self._narrow(block))
        self._row += len(block)

    def discard(self) -> None:
        """Remove the temporary file, if there is one."""
        if self._sink:
            self._sink.discard()

    def result(self) -> np.ndarray:
        """Return all rows."""
        return self._sink.result() if self._sink else np.empty((0, 0), np.float32)

    @property
    def notes(self) -> tuple[str, ...]:
        """What single precision loses of the columns."""
        return self._narrow.notes if self._sink else ()

    def _stacked(self, arrays: Sequence[pa.Array]) -> np.ndarray:
        block = np.empty((len(arrays[0]), len(arrays)), self._dtype)
        # The rows of `block.T` are views of the columns of `block`.
        for column, array in zip(block.T, arrays, strict=True):
            column[:] = _numbers(array)
        return block

    def _flat(self, array: pa.Array) -> np.ndarray:
        # A missing list counts as empty, and is refused below with its row.
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        if self._sink is None and self._row == 0:
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
    first = None
    for (array,) in table.batches([field]):
        for value in filter(lambda cell: cell.is_valid, array):
            first = value.as_py() if first is None else first
            if not _reads_as_number(value.as_py()):
                return value.as_py()
    return first


def _reads_as_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


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
