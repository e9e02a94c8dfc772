"""Tables: their columns, walked block by block, and the cells of one column, loaded on demand."""

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kspr.errors import InputError
from kspr.sources.readers.file_checks import listed

if TYPE_CHECKING:
    from kspr.sources.parts import Part

__all__ = [
    "BLOCK_BYTES",
    "Cells",
    "Columns",
    "Field",
    "Segment",
    "Table",
    "fields_of",
    "in_memory",
    "pick",
    "sound",
]

_BUDGET = 1 << 30


@dataclass(frozen=True)
class Segment:
    """Consecutive cells that are loaded together, such as a row group of a parquet file."""

    length: int
    nbytes: int
    load: Callable[[], Any]
    """Return an Arrow array (or chunked array) of `length` cells."""


class Cells:
    """Values by row number; segments that were used last stay in memory, up to a budget.

    Safe to use from several threads, and picklable if its segments are.
    """

    def __init__(self, segments: Sequence[Segment], owner: Any = None, budget: int = _BUDGET):
        self._segments = list(segments)
        self._starts = np.cumsum([0, *(segment.length for segment in segments)])
        # Whatever must outlive the cells, such as the temporary file that they lie in.
        self._owner = owner
        self._budget = budget
        self._loaded: OrderedDict[int, Any] = OrderedDict()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return (Cells, (self._segments, self._owner, self._budget))

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, row: int) -> Any:
        """Return one value as a Python object."""
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of {len(self)}")
        number = int(np.searchsorted(self._starts, row, side="right")) - 1
        return self._get(number)[int(row - self._starts[number])].as_py()

    def __iter__(self) -> Iterator[Any]:
        for number in range(len(self._segments)):
            for value in self._get(number):
                yield value.as_py()

    def _get(self, number: int) -> Any:
        # Loaded under the lock: threads that ask for one segment wait for one load.
        with self._lock:
            if number not in self._loaded:
                self._loaded[number] = self._segments[number].load()
                self._forget()
            self._loaded.move_to_end(number)
            return self._loaded[number]

    def _forget(self) -> None:
        while len(self._loaded) > 1 and self._held() > self._budget:
            self._loaded.popitem(last=False)

    def _held(self) -> int:
        return sum(self._segments[number].nbytes for number in self._loaded)


def in_memory(chunks: Iterable[pa.Array], where: str, owner: Any = None) -> Cells:
    """Return cells that are in memory, or memory-mapped, already; checked when they are used."""
    # They take no further memory, so that none is ever dropped.
    return Cells([Segment(len(chunk), 0, partial(sound, chunk, where)) for chunk in chunks], owner)


def sound(array: Any, where: str) -> Any:
    """Return the array if its parts fit together; Arrow does not check a file, and would crash."""
    try:
        array.validate(full=True)
    except pa.ArrowException as error:
        reason = str(error).split("\n")[0][:80].rstrip(".")
        raise InputError(f"{where} holds damaged data ({reason}). Write it again.") from error
    return array


BLOCK_BYTES = 16 << 20
"""About how much of a table is held at a time while it is walked."""


@dataclass(frozen=True)
class Field:
    """A column, or a member of a struct column: ``img.bytes`` is ``bytes`` within ``img``."""

    name: str
    path: tuple[str, ...]
    type: pa.DataType


@dataclass(frozen=True)
class Columns:
    """All columns of a table as they are stored: names, order, types, values and metadata."""

    schema: pa.Schema
    walk: Callable[[], Iterator[pa.RecordBatch]]
    """Yield all rows in order, a block at a time, from the beginning."""


class Table(Protocol):
    """A table that can be walked from its beginning as often as needed."""

    @property
    def fields(self) -> Mapping[str, Field]:
        """Columns in order, each followed by its members."""
        ...

    @property
    def metadata(self) -> Mapping[bytes, bytes]:
        """Metadata of the schema, as stored in the file."""
        ...

    @property
    def rows(self) -> int | None:
        """Number of rows; None where the whole table would have to be read to know."""
        ...

    @property
    def parts(self) -> "tuple[Part, ...]":
        """Files that can be read apart from each other; empty where there are none."""
        ...

    @property
    def untyped(self) -> bool:
        """Whether everything is stored as text, so that a label's type must be found."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What was found out about the file that a person should know: one sentence each."""
        ...

    def batches(self, fields: Sequence[Field]) -> Iterator[list[pa.Array]]:
        """Yield the fields' arrays, a block of rows at a time."""
        ...

    def cells(self, field: Field) -> Cells:
        """Return one field's values; they are loaded when they are asked for.

        Texts may be asked for as bytes, by the field's type; they may still come as texts.
        """
        ...

    def columns(self, *, as_text: bool = False) -> Columns:
        """Return all columns, to be written elsewhere without loss.

        A CSV file has no types: with `as_text` its cells are texts, as they are written; without,
        a column in which every cell is a plain number holds numbers. Other tables have types of
        their own, which they keep in either case.
        """
        ...


def fields_of(schema: pa.Schema, where: str) -> dict[str, Field]:
    """Return the columns and the members of struct columns, by name."""
    try:
        names = schema.names
    except UnicodeDecodeError as error:
        raise InputError(
            f"{where} has a column whose name is not UTF-8. Write it again in UTF-8."
        ) from error
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise InputError(f"{where} has more than one column named {listed(twice)}. Rename them.")
    found = {}
    for column in schema:
        found[column.name] = Field(column.name, (column.name,), column.type)
        if pa.types.is_struct(column.type):
            for member in column.type:
                name = f"{column.name}.{member.name}"
                found.setdefault(name, Field(name, (column.name, member.name), member.type))
    return found


def pick(batch: Any, field: Field) -> Any:
    """Return a field's array from a batch (or table) that holds its column."""
    array = batch.column(field.path[0])
    for member in field.path[1:]:
        array = pc.struct_field(array, member)
    return array
