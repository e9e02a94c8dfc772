"""Tables: their columns, walked block by block, and the cells of one column, loaded on demand."""

import tempfile
import threading
from abc import ABC, abstractmethod
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kspr.errors import InputError
from kspr.sources.readers.file_checks import BLOCK_BYTES, check_row_count, listed, mapped, room

if TYPE_CHECKING:
    from kspr.sources.parts import Part


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

    def __init__(self, segments: Iterable[Segment], budget: int = _BUDGET):
        self._segments = list(segments)
        self._starts = np.cumsum([0, *(segment.length for segment in self._segments)])
        self._budget = budget
        self._loaded: OrderedDict[int, Any] = OrderedDict()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return (Cells, (self._segments, self._budget))

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
                held = sum(self._segments[other].nbytes for other in self._loaded)
                while len(self._loaded) > 1 and held > self._budget:
                    oldest, _ = self._loaded.popitem(last=False)
                    held -= self._segments[oldest].nbytes
            self._loaded.move_to_end(number)
            return self._loaded[number]


def keep(chunks: Iterable[pa.Array], where: str, *, in_file: bool = False) -> Cells:
    """Return the cells of a column whose chunks can be read only once.

    They are as they are, in memory or mapped, or written to a temporary file.
    """
    if in_file:
        chunks = _in_file(iter(chunks))
    # Checked when they are used. They take no further memory, so that none is ever dropped.
    return Cells(Segment(len(chunk), 0, partial(sound, chunk, where)) for chunk in chunks)


def _in_file(chunks: Iterator[pa.Array]) -> list[pa.Array]:
    first = next(chunks)
    schema = pa.schema([("cell", first.type)])
    with room(), tempfile.TemporaryFile() as file:
        with pa.ipc.new_stream(file, schema) as writer:
            writer.write_batch(pa.record_batch([first], schema=schema))
            for chunk in chunks:
                writer.write_batch(pa.record_batch([chunk], schema=schema))
        # The arrays keep the mapping, and that the file, which has no name, after it is closed.
        content = mapped(file)
    return [batch.column(0) for batch in pa.ipc.open_stream(content)]


def sound(array: Any, where: str) -> Any:
    """Return the array if its parts fit together; Arrow does not check a file, and would crash."""
    try:
        array.validate(full=True)
    except pa.ArrowException as error:
        reason = str(error).split("\n")[0][:80].rstrip(".")
        raise InputError(f"{where} holds damaged data ({reason}). Write it again.") from error
    return array


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


class Table(ABC):
    """A table that can be walked from its beginning as often as needed."""

    parts: "tuple[Part, ...]" = ()
    """Files that can be read apart from each other; empty where there are none."""
    untyped: bool = False
    """Whether everything is stored as text, so that a label's type must be inferred."""
    notes: tuple[str, ...] = ()
    """Facts about the file that a person should know: one sentence each."""

    def __init__(self, schema: pa.Schema, where: str, rows: int | None = None) -> None:
        self.schema = schema
        self.where = where
        """Name of the file, in errors."""
        self.fields: Mapping[str, Field] = fields_of(schema, where)
        """Columns in order, each followed by its members."""
        self.metadata: Mapping[bytes, bytes] = schema.metadata or {}
        """Metadata of the schema, as stored in the file."""
        self.rows = rows
        """Number of rows; None where the whole table would have to be read to know."""

    @abstractmethod
    def batches(self, fields: Sequence[Field]) -> Iterator[list[pa.Array]]:
        """Yield the fields' arrays, a block of rows at a time."""

    def read(self, fields: Sequence[Field]) -> list[pa.ChunkedArray]:
        """Return the fields' columns whole; those of a table without types as texts."""
        if self.untyped:
            fields = [replace(field, type=pa.string()) for field in fields]
        blocks: list[list[pa.Array]] = []
        count = 0
        for arrays in self.batches(fields):
            count += len(arrays[0])
            check_row_count(count, self.where)
            blocks.append(arrays)
        return [
            pa.chunked_array([arrays[number] for arrays in blocks], field.type)
            for number, field in enumerate(fields)
        ]

    @abstractmethod
    def cells(self, field: Field) -> Cells:
        """Return one field's values; they are loaded when they are asked for.

        Texts may be asked for as bytes, by the field's type; they may still come as texts.
        """

    def columns(self, *, as_text: bool = False) -> Columns:  # noqa: ARG002 - for tables of text
        """Return all columns, to be written elsewhere without loss.

        A CSV file has no types: with `as_text` its cells are texts, as they are written; without,
        a column in which every cell is a plain number holds numbers. Other tables keep their types
        in either case.
        """
        # Members of structs are listed as fields too; their column already holds them.
        every = [field for field in self.fields.values() if len(field.path) == 1]
        schema = self.schema
        return Columns(
            schema,
            lambda: (pa.RecordBatch.from_arrays(a, schema=schema) for a in self.batches(every)),
        )


class ArrowTable(Table):
    """A table in memory."""

    def __init__(self, table: pa.Table, where: str) -> None:
        super().__init__(table.schema, where, table.num_rows)
        self._table = table

    def batches(self, fields: Sequence[Field]) -> Iterator[list[pa.Array]]:
        """Yield the fields' arrays, a block of rows at a time."""
        columns = self._table.select(list(dict.fromkeys(field.path[0] for field in fields)))
        for batch in columns.to_batches(rows_per_block(columns.num_rows, columns.nbytes)):
            yield [sound(pick(batch, field), self.where) for field in fields]

    def cells(self, field: Field) -> Cells:
        """Return one field's values."""
        return keep(pick(self._table, field).chunks, self.where)


def rows_per_block(n_rows: int, nbytes: int) -> int:
    """Return how many of the rows of a table, which take `nbytes` in all, are held at a time."""
    # 65,536 is what Arrow's readers take by default; fewer where rows are images.
    return max(256, min(65536, BLOCK_BYTES * n_rows // max(1, nbytes)))


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
    fields = {}
    for column in schema:
        fields[column.name] = Field(column.name, (column.name,), column.type)
        if pa.types.is_struct(column.type):
            for member in column.type:
                name = f"{column.name}.{member.name}"
                fields.setdefault(name, Field(name, (column.name, member.name), member.type))
    return fields


def pick(batch: Any, field: Field) -> Any:
    """Return a field's array from a batch (or table) that holds its column."""
    array = batch.column(field.path[0])
    for member in field.path[1:]:
        array = pc.struct_field(array, member)
    return array
