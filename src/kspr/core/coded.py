"""Columns in few bytes: what is stored is small, and what is read is an array.

They are those of a source, and of a selection. Of a hundred million rows, every byte of a column is
a tenth of a gigabyte. A text costs up to a hundred bytes in every row, as a code one to four.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np

__all__ = [
    "ROWS",
    "AllRows",
    "Coded",
    "InParts",
    "Stored",
    "as_read",
    "changed",
    "chosen_rows",
    "class_sizes",
    "coded",
    "doubts",
    "label_at",
    "masked",
    "part_of",
    "row_ranges",
    "rows_of",
    "stored_columns",
    "stored_of",
]

ROWS = 1 << 18
"""Rows of which columns are made at a time."""
_KEPT = 16 << 20
Value = TypeVar("Value")


class Stored(ABC):
    """A column that is made when it is read."""

    _array: np.ndarray | None = None

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def values(self, rows: Any = slice(None)) -> np.ndarray:
        """Return what some rows are read as, all by default."""

    def __getitem__(self, rows: Any) -> np.ndarray:
        return self.values(rows)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        # What `array` returns is not a copy: it may be kept.
        return np.array(self.array(), dtype=dtype, copy=copy)

    def array(self) -> np.ndarray:
        """Return the whole column; where it takes little memory, the same array every time."""
        if self._array is not None:
            return self._array
        found = self.values()
        if found.nbytes <= _KEPT:
            self._array = found
        return found


class InParts(Stored):
    """A column of which neighbouring rows are made, or read, when they are asked for."""

    @abstractmethod
    def part(self, start: int, stop: int) -> np.ndarray:
        """Return neighbouring rows."""

    def values(self, rows: Any = slice(None)) -> np.ndarray:
        """Return some rows: a slice, numbers in any order, or a mask."""
        if self._array is not None:
            return np.asarray(self._array[rows])[()]
        if isinstance(rows, slice):
            start, stop, step = rows.indices(len(self))
            return self.part(start, max(start, stop))[::step]
        number = AllRows(len(self))[rows]
        if not number.ndim:
            return self.part(int(number), int(number) + 1)[0]  # type: ignore[no-any-return]
        order = np.argsort(number, kind="stable")
        ordered, found = number[order], [self.part(0, 0)]
        for part in row_ranges(len(self)):
            first, end = np.searchsorted(ordered, [part.start, part.stop])
            if end > first:
                found.append(self.part(part.start, part.stop)[ordered[first:end] - part.start])
        whole = np.concatenate(found)
        return np.asarray(whole[np.argsort(order, kind="stable")])

    def tolist(self) -> list[Any]:
        """Return all rows as a list."""
        return list(self.array().tolist())


class Coded(Stored):
    """Labels, or levels, as positions among the different ones.

    >>> Coded(np.array([1, 0, 1]), np.array(["cat", "dog"])).values().tolist()
    ['dog', 'cat', 'dog']
    """

    def __init__(self, codes: np.ndarray, classes: np.ndarray) -> None:
        self.codes = codes.astype(np.min_scalar_type(max(0, len(classes) - 1)), copy=False)
        self.classes = classes

    def __len__(self) -> int:
        return len(self.codes)

    def values(self, rows: Any = slice(None)) -> np.ndarray:
        """Return the labels themselves."""
        return np.asarray(self.classes[self.codes[rows]])

    def at(self, rows: Any) -> "Coded":
        """Return some rows, as codes too."""
        return Coded(self.codes[rows], self.classes)


class AllRows(Stored):
    """The numbers of all rows, from 0 on: nothing of them is stored.

    >>> AllRows(4)[1:].tolist(), AllRows(4)[np.array([2, -1])].tolist()
    ([1, 2, 3], [2, 3])
    """

    def __init__(self, n_rows: int) -> None:
        self._rows = range(n_rows)

    def __len__(self) -> int:
        return len(self._rows)

    def values(self, rows: Any = slice(None)) -> np.ndarray:
        """Return the numbers at some places: a mask, numbers, or a slice."""
        if isinstance(rows, slice):
            found = self._rows[rows]
            return np.arange(found.start, found.stop, found.step)
        rows = np.asarray(rows)
        if rows.dtype == bool:
            return np.flatnonzero(rows)
        if rows.size and not -len(self) <= rows.min() <= rows.max() < len(self):
            raise IndexError(f"{rows.max()} is none of {len(self)} rows")
        return np.asarray(np.where(rows < 0, rows + len(self), rows), dtype=np.int64)[()]

    def tolist(self) -> list[int]:
        """Return all numbers."""
        return list(self._rows)


class _Doubts(Stored):
    """Chances that labels are wrong, from those that they are right, in single precision.

    Stored as doubts in single precision, the most suspicious rows would all have the doubt 1.

    >>> _Doubts(np.array([0.75, 2.0**-40], dtype=np.float32)).values().tolist()
    [0.25, 0.9999999999990905]
    """

    def __init__(self, right: np.ndarray) -> None:
        self.right = right

    def __len__(self) -> int:
        return len(self.right)

    def values(self, rows: Any = slice(None)) -> np.ndarray:
        """Return the doubts in double precision."""
        found = np.array(self.right[rows], dtype=np.float64)
        # In place: one copy of a large column is enough.
        return np.asarray(np.subtract(1.0, found, out=found))


def doubts(right: np.ndarray) -> Any:
    """Return the doubt of labels as it is best stored, from their chances to be right."""
    return _Doubts(right)


def coded(codes: np.ndarray, classes: np.ndarray, values: np.ndarray | None = None) -> Any:
    """Return labels as they are best stored; `values` are the labels, where they are at hand."""
    # Equal objects may still differ, as 1 and True do.
    objects = values is not None and classes.dtype.kind == "O"
    return values if objects else Coded(codes, classes)


def stored_columns(*names: str) -> Callable[[type[Value]], type[Value]]:
    """Return a decorator of a dataclass: these fields may be given as they are best stored.

    Whatever they are stored as, they are read as arrays.
    """

    def decorate(owner: type[Value]) -> type[Value]:
        # After the dataclass is made, which would take a descriptor for a default.
        for name in names:
            setattr(owner, name, _Column(name))
        return owner

    return decorate


class _Column:
    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else as_read(instance.__dict__[self._name])

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self._name] = value


def as_read(column: Any) -> Any:
    """Return a column as an array, however it is stored."""
    return column.array() if isinstance(column, Stored) else column


def part_of(column: Any, rows: Any) -> np.ndarray:
    """Return some rows of a column, however it is stored."""
    return np.asarray(column[rows])


def chosen_rows(column: Any, rows: Any) -> Any:
    """Return some rows of a column; codes stay codes."""
    return column.at(rows) if isinstance(column, Coded) else column[rows]


def masked(column: Any, mask: np.ndarray) -> np.ndarray:
    """Return the numbers of the rows in a mask in double precision, made a part at a time.

    >>> masked(np.array([0.5, 1.0, 2.0]), np.array([True, False, True])).tolist()
    [0.5, 2.0]
    """
    found, start = np.empty(np.count_nonzero(mask)), 0
    for rows in row_ranges(len(mask)):
        part = column[rows][mask[rows]]
        found[start : start + len(part)] = part
        start += len(part)
    return found


def rows_of(value: Any, name: str, rows: Any) -> np.ndarray:
    """Return some rows of a column of a selection: reading the column would make all rows."""
    return part_of(value.__dict__[name], rows)


def stored_of(value: Any, name: str) -> Any:
    """Return a column as it is stored: an array, or `Coded` and the like."""
    return value.__dict__[name]


def label_at(value: Any, name: str, row: int) -> Any:
    """Return one label in a column of a selection: reading the column would decode all rows."""
    column = value.__dict__[name]
    return column.classes[column.codes[row]] if isinstance(column, Coded) else column[row]


def changed(value: Value, **changes: Any) -> Value:
    """Return a dataclass with other values in some fields; columns stay as they are stored."""
    # `dataclasses.replace` would read the labels, and so keep all of them as texts.
    stored = {field.name: value.__dict__[field.name] for field in fields(value)}  # type: ignore[arg-type]
    return type(value)(**{**stored, **changes})


def class_sizes(codes: np.ndarray, n_classes: int, mask: np.ndarray | None = None) -> np.ndarray:
    """Return how many rows have each code; of the rows in `mask`, if one is given.

    >>> class_sizes(np.array([0, 2, 2], dtype=np.uint8), 3).tolist()
    [1, 0, 2]
    """
    total = np.zeros(n_classes, dtype=np.int64)
    # `np.bincount` makes eight bytes of every code.
    for rows in row_ranges(len(codes)):
        part = codes[rows] if mask is None else codes[rows][mask[rows]]
        total += np.bincount(part, minlength=n_classes)
    return total


def row_ranges(n_rows: int) -> Iterator[slice]:
    """Yield neighbouring rows, few enough that columns of them take little memory."""
    for start in range(0, n_rows, ROWS):
        yield slice(start, min(start + ROWS, n_rows))
