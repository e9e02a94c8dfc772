"""Columns of labels, stored as small numbers: a text costs up to a hundred bytes, in every row."""

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np

from kspr.core.labels import codes_in

__all__ = [
    "ROWS",
    "Coded",
    "changed",
    "coded",
    "coded_columns",
    "label_at",
    "row_ranges",
    "stored_codes",
]

ROWS = 1 << 18
"""Rows of which columns are made at a time."""
_KEPT = 16 << 20
Value = TypeVar("Value")


class Coded:
    """Labels as positions in their classes.

    >>> Coded(np.array([1, 0, 1]), np.array(["cat", "dog"])).values().tolist()
    ['dog', 'cat', 'dog']
    """

    def __init__(self, codes: np.ndarray, classes: np.ndarray) -> None:
        self.codes = codes.astype(np.min_scalar_type(max(0, len(classes) - 1)), copy=False)
        self.classes = classes
        self._array: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.codes)

    def values(self, rows: slice = slice(None)) -> np.ndarray:
        """Return the labels themselves."""
        return np.asarray(self.classes[self.codes[rows]])

    def array(self) -> np.ndarray:
        """Return all labels; where they take little memory, the same array every time."""
        if self._array is not None:
            return self._array
        found = self.values()
        if found.nbytes <= _KEPT:
            self._array = found
        return found


def coded(codes: np.ndarray, classes: np.ndarray, values: np.ndarray | None = None) -> Any:
    """Return labels as they are best stored; `values` are the labels, where they are at hand."""
    # Equal objects may still differ, as 1 and True do.
    objects = values is not None and classes.dtype.kind == "O"
    return values if objects else Coded(codes, classes)


def coded_columns(*names: str) -> Callable[[type[Value]], type[Value]]:
    """Return a decorator of a dataclass: these fields may be given as `Coded`, and read as arrays.

    They are stored as they are given.
    """

    def decorate(owner: type[Value]) -> type[Value]:
        # After the dataclass is made, which would take a descriptor for a default.
        for name in names:
            setattr(owner, name, _CodedColumn(name))
        return owner

    return decorate


class _CodedColumn:
    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        stored = instance.__dict__[self._name]
        return stored.array() if isinstance(stored, Coded) else stored

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self._name] = value


def stored_codes(value: Any, name: str) -> np.ndarray:
    """Return which of its `classes` each label in a column of a selection is."""
    column = value.__dict__[name]
    if isinstance(column, Coded):
        return column.codes
    return codes_in(value.classes, column, name)


def label_at(value: Any, name: str, row: int) -> Any:
    """Return one label in a column of a selection: reading the column would decode all rows."""
    column = value.__dict__[name]
    return column.classes[column.codes[row]] if isinstance(column, Coded) else column[row]


def changed(value: Value, **changes: Any) -> Value:
    """Return a dataclass with other values in some fields; columns stay as they are stored."""
    # `dataclasses.replace` would read the labels, and so keep all of them as texts.
    stored = {field.name: value.__dict__[field.name] for field in fields(value)}  # type: ignore[arg-type]
    return type(value)(**{**stored, **changes})


def row_ranges(n_rows: int) -> Iterator[slice]:
    """Yield neighbouring rows, few enough that columns of them take little memory."""
    for start in range(0, n_rows, ROWS):
        yield slice(start, start + ROWS)
