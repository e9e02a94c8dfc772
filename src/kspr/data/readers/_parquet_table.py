"""Parquet files as one table, read row group by row group."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kspr.data.readers._cells import Cells, Segment, sound
from kspr.data.readers._guard import check_file, readable
from kspr.data.readers._spill import IN_MEMORY, keep
from kspr.data.readers._table import BLOCK_BYTES, Field, fields_of, pick
from kspr.errors import InputError

__all__ = ["ParquetTable", "open_parquet_table"]

_KIND = "a parquet file"
# A column is read through a buffer of this size, not a whole row group at once.
_BUFFER = 1 << 16


@dataclass(frozen=True)
class ParquetTable:
    """One parquet file, or several with the same columns."""

    paths: tuple[Path, ...]
    fields: Mapping[str, Field]
    metadata: Mapping[bytes, bytes]
    rows: int
    untyped: bool = False

    def batches(self, fields: Sequence[Field]) -> Iterator[list[pa.Array]]:
        names = [field.name for field in fields]
        for path in self.paths:
            with readable(path, _KIND), _open(path) as file:
                step = _rows_per_block(file, fields)
                for batch in file.iter_batches(step, columns=names):
                    yield [sound(pick(batch, field), str(path)) for field in fields]

    def cells(self, field: Field) -> Cells:
        segments = [s for path in self.paths for s in _segments(path, field)]
        if max(segment.nbytes for segment in segments) > IN_MEMORY:
            # A group that does not fit into memory cannot be fetched for one cell's sake.
            return keep((array for (array,) in self.batches([field])), str(self.paths[0]))
        return Cells(segments)


def open_parquet_table(*paths: Path) -> ParquetTable:
    """Return the table of files whose footers can be read and agree."""
    schemas, rows = [], 0
    for path in paths:
        check_file(path, _KIND, b"PAR1")
        with readable(path, _KIND), _open(path) as file:
            schemas.append(file.schema_arrow)
            rows += file.metadata.num_rows
    for path, schema in zip(paths, schemas, strict=True):
        if not schema.equals(schemas[0]):
            raise InputError(f"{path} has other columns or types than {paths[0]}.")
    fields = fields_of(schemas[0], str(paths[0]))
    return ParquetTable(paths, fields, schemas[0].metadata or {}, rows)


def _open(path: Path) -> Any:
    return pq.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False)


def _chunks_of(file: Any, group: int, fields: Sequence[Field]) -> Iterator[Any]:
    """Yield what the footer says about the fields' columns in a row group."""
    roots = tuple(field.name for field in fields)
    of_group = file.metadata.row_group(group)
    for number in range(of_group.num_columns):
        chunk = of_group.column(number)
        path = chunk.path_in_schema
        if path in roots or path.startswith(tuple(f"{root}." for root in roots)):
            yield chunk


def _nbytes(file: Any, group: int, fields: Sequence[Field]) -> int:
    return sum(chunk.total_uncompressed_size for chunk in _chunks_of(file, group, fields))


def _rows_per_block(file: Any, fields: Sequence[Field]) -> int:
    total = sum(_nbytes(file, group, fields) for group in range(file.num_row_groups))
    rows = int(BLOCK_BYTES * file.metadata.num_rows // max(1, total))
    return max(256, min(65536, rows))


def _segments(path: Path, field: Field) -> Iterator[Segment]:
    with readable(path, _KIND), _open(path) as file:
        for group in range(file.num_row_groups):
            length = file.metadata.row_group(group).num_rows
            yield Segment(length, _nbytes(file, group, [field]), partial(_load, path, group, field))


def _load(path: Path, group: int, field: Field) -> Any:
    with readable(path, _KIND), _open(path) as file:
        cells = pick(file.read_row_group(group, columns=[field.name]), field)
    return cells if cells.type == field.type else cells.cast(field.type)
