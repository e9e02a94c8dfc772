"""Tables in Arrow and parquet files: mapped, or read block by block."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa

from kspr.sources.parts import IpcFile, Part, list_parts, open_ipc, open_parquet
from kspr.sources.readers._spill import IN_MEMORY, keep
from kspr.sources.readers.file_checks import readable
from kspr.sources.readers.table import (
    BLOCK_BYTES,
    Cells,
    Columns,
    Field,
    Segment,
    Table,
    fields_of,
    in_memory,
    pick,
    sound,
)

__all__ = ["ArrowTable", "ParquetTable", "open_ipc_table", "open_parquet_table"]

_IPC, _PARQUET = "an Arrow file", "a parquet file"


def open_ipc_table(*uris: str) -> Table:
    """Return the table of Arrow files (Feather is one) or streams with the same columns.

    An uncompressed file is memory-mapped; a compressed one is read batch by batch.
    """
    schema, parts = list_parts(uris, "arrow")
    fields, files = fields_of(schema, uris[0]), [open_ipc(uri) for uri in uris]
    if not all(_is_mapped(uri, file) for uri, file in zip(uris, files, strict=True)):
        return _CompressedTable(parts, schema, fields)
    with readable(uris[0], _IPC):
        batches = chain.from_iterable(file.batches() for file in files)
        rows = (batch.select(schema.names) for batch in batches if batch.num_rows)
        table = pa.Table.from_batches(rows, schema=schema)
    return ArrowTable(table, uris[0], parts)


class ArrowTable:
    """A table in memory, or memory-mapped."""

    rows: int
    untyped = False
    notes: tuple[str, ...] = ()

    def __init__(self, table: pa.Table, where: str, parts: tuple[Part, ...] = ()) -> None:
        self._table = table
        self.parts = parts
        self._where = where
        self.rows = table.num_rows
        self.fields: Mapping[str, Field] = fields_of(table.schema, where)
        self.metadata: Mapping[bytes, bytes] = table.schema.metadata or {}

    def batches(self, fields: Sequence[Field]) -> Iterator[list[pa.Array]]:
        columns = self._table.select(list(dict.fromkeys(field.path[0] for field in fields)))
        for batch in columns.to_batches(max_chunksize=self._rows_per_block(columns)):
            yield [sound(pick(batch, field), self._where) for field in fields]

    def cells(self, field: Field) -> Cells:
        return in_memory(pick(self._table, field).chunks, self._where)

    def columns(self, *, as_text: bool = False) -> Columns:  # noqa: ARG002 - its types are its own
        return Columns(self._table.schema, self._walk)

    def _walk(self) -> Iterator[pa.RecordBatch]:
        for batch in self._table.to_batches(max_chunksize=self._rows_per_block(self._table)):
            yield sound(batch, self._where)

    def _rows_per_block(self, columns: pa.Table) -> int:
        return max(256, BLOCK_BYTES * self.rows // max(1, int(columns.nbytes)))


@dataclass(frozen=True)
class _CompressedTable:
    parts: tuple[Part, ...]
    schema: pa.Schema
    fields: Mapping[str, Field]
    untyped: bool = False
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    @property
    def metadata(self) -> Mapping[bytes, bytes]:
        return self.schema.metadata or {}

    def batches(self, fields: Sequence[Field]) -> Iterator[list[pa.Array]]:
        for uri, batch in self._stored():
            yield [sound(pick(batch, field), uri) for field in fields]

    def cells(self, field: Field) -> Cells:
        return keep((array for (array,) in self.batches([field])), self.parts[0].uri)

    def columns(self, *, as_text: bool = False) -> Columns:  # noqa: ARG002 - its types are its own
        names = self.schema.names
        return Columns(self.schema, lambda: (sound(b, u).select(names) for u, b in self._stored()))

    def _stored(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        for part in filter(_has_rows, self.parts):
            with readable(part.uri, _IPC):
                for batch in open_ipc(part.uri).batches():
                    yield part.uri, batch


def _has_rows(part: Part) -> bool:
    return part.rows > 0


def _is_mapped(uri: str, file: IpcFile) -> bool:
    """Return whether batches lie in the mapped file itself, and so take no memory."""
    if file.whole is None:
        return False
    with readable(uri, _IPC):
        first = next(file.again().batches(), None)
        columns = first.columns if first is not None else []
        parts = [part for column in columns for part in column.buffers() if part]
    # Arrow unpacks compressed buffers into new memory, outside of the mapped file.
    start, end = file.whole.address, file.whole.address + file.whole.size
    return all(start <= part.address < end for part in parts if part.size)


@dataclass(frozen=True)
class ParquetTable:
    """One parquet file, or several with the same columns."""

    parts: tuple[Part, ...]
    schema: pa.Schema
    fields: Mapping[str, Field]
    untyped: bool = False
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(part.rows for part in self.parts)

    @property
    def metadata(self) -> Mapping[bytes, bytes]:
        return self.schema.metadata or {}

    def batches(self, fields: Sequence[Field]) -> Iterator[list[pa.Array]]:
        names = [field.name for field in fields]
        for part in filter(_has_rows, self.parts):
            with readable(part.uri, _PARQUET), open_parquet(part.uri) as file:
                step = _rows_per_block(file, fields)
                for batch in file.iter_batches(step, columns=names):
                    yield [sound(pick(batch, field), part.uri) for field in fields]

    def cells(self, field: Field) -> Cells:
        segments = [s for part in self.parts for s in _segments(part, field)]
        if max(segment.nbytes for segment in segments) > IN_MEMORY:
            # A row group that does not fit into memory cannot be loaded for one cell.
            return keep((array for (array,) in self.batches([field])), self.parts[0].uri)
        return Cells(segments)

    def columns(self, *, as_text: bool = False) -> Columns:  # noqa: ARG002 - its types are its own
        return Columns(self.schema, self._walk)

    def _walk(self) -> Iterator[pa.RecordBatch]:
        # Members of structs are listed as fields too; their column already holds them.
        everything = [field for field in self.fields.values() if len(field.path) == 1]
        for part in filter(_has_rows, self.parts):
            with readable(part.uri, _PARQUET), open_parquet(part.uri) as file:
                for batch in file.iter_batches(_rows_per_block(file, everything)):
                    yield sound(batch, part.uri).select(self.schema.names)


def open_parquet_table(*uris: str) -> ParquetTable:
    """Return the table of parquet files; raise if their columns or types differ."""
    schema, parts = list_parts(uris, "parquet")
    return ParquetTable(parts, schema, fields_of(schema, uris[0]))


def _chunks_of(file: Any, group: int, fields: Sequence[Field]) -> Iterator[Any]:
    """Yield what the footer says about the fields' columns in a row group."""
    roots = tuple(field.name for field in fields)
    of_group = file.metadata.row_group(group)
    for number in range(of_group.num_columns):
        chunk = of_group.column(number)
        path = chunk.path_in_schema
        # Lists and structs are stored as leaves, such as emb.list.element and image.bytes.
        if path in roots or path.startswith(tuple(f"{root}." for root in roots)):
            yield chunk


def _nbytes(file: Any, group: int, fields: Sequence[Field]) -> int:
    return sum(chunk.total_uncompressed_size for chunk in _chunks_of(file, group, fields))


def _rows_per_block(file: Any, fields: Sequence[Field]) -> int:
    total = sum(_nbytes(file, group, fields) for group in range(file.num_row_groups))
    rows = int(BLOCK_BYTES * file.metadata.num_rows // max(1, total))
    # 65,536 is what iter_batches takes by default; fewer where rows are images.
    return max(256, min(65536, rows))


def _segments(part: Part, field: Field) -> Iterator[Segment]:
    with readable(part.uri, _PARQUET), open_parquet(part.uri) as file:
        sizes = [_nbytes(file, group, [field]) for group in range(len(part.groups))]
    for group, (length, size) in enumerate(zip(part.groups, sizes, strict=True)):
        yield Segment(length, size, partial(_load, part, group, field))


def _load(part: Part, group: int, field: Field) -> Any:
    (cells,) = part.read([field], group)
    return cells
