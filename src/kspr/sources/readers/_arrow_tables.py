"""Tables in Arrow and parquet files: mapped, or read block by block."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kspr.errors import InputError
from kspr.sources.readers._spill import IN_MEMORY, keep
from kspr.sources.readers.file_checks import check_file, readable
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

_IPC = "an Arrow file"
_FILE_MAGIC = b"ARROW1"


def open_ipc_table(*paths: Path) -> Table:
    """Return the table of Arrow files (Feather is one) or streams with the same columns.

    An uncompressed file is memory-mapped; a compressed one is read batch by batch.
    """
    files = [_open_ipc(path) for path in paths]
    for path, file in zip(paths, files, strict=True):
        if not file.schema.equals(files[0].schema):
            raise InputError(f"{path} has other columns or types than {paths[0]}.")
    if not all(_is_mapped(path, file) for path, file in zip(paths, files, strict=True)):
        return _CompressedTable(paths, files[0].schema, fields_of(files[0].schema, str(paths[0])))
    with readable(paths[0], _IPC):
        batches = chain.from_iterable(file.batches() for file in files)
        table = pa.Table.from_batches(batches, schema=files[0].schema)
    return ArrowTable(table, str(paths[0]))


class ArrowTable:
    """A table in memory, or memory-mapped."""

    rows: int
    untyped = False
    notes: tuple[str, ...] = ()

    def __init__(self, table: pa.Table, where: str) -> None:
        self._table = table
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
    paths: tuple[Path, ...]
    schema: pa.Schema
    fields: Mapping[str, Field]
    rows: int | None = None
    untyped: bool = False
    notes: tuple[str, ...] = ()

    @property
    def metadata(self) -> Mapping[bytes, bytes]:
        return self.schema.metadata or {}

    def batches(self, fields: Sequence[Field]) -> Iterator[list[pa.Array]]:
        for path, batch in self._stored():
            yield [sound(pick(batch, field), str(path)) for field in fields]

    def cells(self, field: Field) -> Cells:
        return keep((array for (array,) in self.batches([field])), str(self.paths[0]))

    def columns(self, *, as_text: bool = False) -> Columns:  # noqa: ARG002 - its types are its own
        return Columns(self.schema, lambda: (sound(b, str(path)) for path, b in self._stored()))

    def _stored(self) -> Iterator[tuple[Path, pa.RecordBatch]]:
        for path in self.paths:
            with readable(path, _IPC):
                for batch in _open_ipc(path).batches():
                    yield path, batch


@dataclass(frozen=True)
class _OpenFile:
    whole: pa.Buffer
    reader: Any

    @property
    def schema(self) -> pa.Schema:
        return self.reader.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        if isinstance(self.reader, pa.RecordBatchFileReader):
            for number in range(self.reader.num_record_batches):
                yield self.reader.get_batch(number)
        else:
            yield from self.reader


def _open_ipc(path: Path) -> _OpenFile:
    check_file(path, _IPC, _FILE_MAGIC)
    with readable(path, _IPC):
        return _open_buffer(pa.memory_map(str(path)).read_buffer())


def _is_mapped(path: Path, file: _OpenFile) -> bool:
    """Return whether batches lie in the mapped file itself, and so take no memory."""
    with readable(path, _IPC):
        # A second reader: what is taken from a stream here would be missing later.
        first = next(_open_buffer(file.whole).batches(), None)
        columns = first.columns if first is not None else []
        parts = [part for column in columns for part in column.buffers() if part]
    # Arrow unpacks compressed buffers into new memory, outside of the mapped file.
    start, end = file.whole.address, file.whole.address + file.whole.size
    return all(start <= part.address < end for part in parts if part.size)


def _open_buffer(whole: pa.Buffer) -> _OpenFile:
    is_file = whole.slice(0, len(_FILE_MAGIC)).to_pybytes() == _FILE_MAGIC
    open_reader = pa.ipc.open_file if is_file else pa.ipc.open_stream
    return _OpenFile(whole, open_reader(whole))


_PARQUET = "a parquet file"
# A column is read through a buffer of this size, not a whole row group at once.
_BUFFER = 1 << 16


@dataclass(frozen=True)
class ParquetTable:
    """One parquet file, or several with the same columns."""

    paths: tuple[Path, ...]
    schema: pa.Schema
    fields: Mapping[str, Field]
    rows: int
    untyped: bool = False
    notes: tuple[str, ...] = ()

    @property
    def metadata(self) -> Mapping[bytes, bytes]:
        return self.schema.metadata or {}

    def batches(self, fields: Sequence[Field]) -> Iterator[list[pa.Array]]:
        names = [field.name for field in fields]
        for path in self.paths:
            with readable(path, _PARQUET), _open_parquet(path) as file:
                step = _rows_per_block(file, fields)
                for batch in file.iter_batches(step, columns=names):
                    yield [sound(pick(batch, field), str(path)) for field in fields]

    def cells(self, field: Field) -> Cells:
        segments = [s for path in self.paths for s in _segments(path, field)]
        if max(segment.nbytes for segment in segments) > IN_MEMORY:
            # A row group that does not fit into memory cannot be loaded for one cell.
            return keep((array for (array,) in self.batches([field])), str(self.paths[0]))
        return Cells(segments)

    def columns(self, *, as_text: bool = False) -> Columns:  # noqa: ARG002 - its types are its own
        return Columns(self.schema, self._walk)

    def _walk(self) -> Iterator[pa.RecordBatch]:
        # Members of structs are listed as fields too; their column already holds them.
        everything = [field for field in self.fields.values() if len(field.path) == 1]
        for path in self.paths:
            with readable(path, _PARQUET), _open_parquet(path) as file:
                for batch in file.iter_batches(_rows_per_block(file, everything)):
                    yield sound(batch, str(path))


def open_parquet_table(*paths: Path) -> ParquetTable:
    """Return the table of parquet files; raise if their columns or types differ."""
    schemas, rows = [], 0
    for path in paths:
        check_file(path, _PARQUET, b"PAR1")
        with readable(path, _PARQUET), _open_parquet(path) as file:
            schemas.append(file.schema_arrow)
            rows += file.metadata.num_rows
    for path, schema in zip(paths, schemas, strict=True):
        # By default `equals` leaves metadata aside.
        if not schema.equals(schemas[0]):
            raise InputError(f"{path} has other columns or types than {paths[0]}.")
    fields = fields_of(schemas[0], str(paths[0]))
    return ParquetTable(paths, schemas[0], fields, rows)


def _open_parquet(path: Path) -> Any:
    # Pre-buffering would hold the whole row group in memory.
    return pq.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False)


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


def _segments(path: Path, field: Field) -> Iterator[Segment]:
    with readable(path, _PARQUET), _open_parquet(path) as file:
        for group in range(file.num_row_groups):
            length = file.metadata.row_group(group).num_rows
            yield Segment(length, _nbytes(file, group, [field]), partial(_load, path, group, field))


def _load(path: Path, group: int, field: Field) -> Any:
    with readable(path, _PARQUET), _open_parquet(path) as file:
        cells = pick(file.read_row_group(group, columns=[field.name]), field)
    return cells if cells.type == field.type else cells.cast(field.type)
