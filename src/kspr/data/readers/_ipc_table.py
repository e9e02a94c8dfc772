"""Arrow files and streams as one table, memory-mapped."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from kspr.data.readers._cells import Cells, sound
from kspr.data.readers._guard import check_file, readable
from kspr.data.readers._spill import keep
from kspr.data.readers._table import ArrowTable, Field, Table, fields_of, pick
from kspr.errors import InputError

__all__ = ["open_ipc_table"]

_KIND = "an Arrow file"
_FILE_MAGIC = b"ARROW1"


def open_ipc_table(*paths: Path) -> Table:
    """Return the table of Arrow files (Feather is one) or streams with the same columns.

    Stored plainly, it stays on disk and is mapped; compressed, it is walked batch by batch.
    """
    files = [_open(path) for path in paths]
    for path, file in zip(paths, files, strict=True):
        if not file.schema.equals(files[0].schema):
            raise InputError(f"{path} has other columns or types than {paths[0]}.")
    if not all(_is_mapped(path, file) for path, file in zip(paths, files, strict=True)):
        fields = fields_of(files[0].schema, str(paths[0]))
        return _CompressedTable(paths, fields, files[0].schema.metadata or {})
    with readable(paths[0], _KIND):
        batches = chain.from_iterable(file.batches() for file in files)
        table = pa.Table.from_batches(batches, schema=files[0].schema)
    return ArrowTable(table, str(paths[0]))


@dataclass(frozen=True)
class _CompressedTable:
    paths: tuple[Path, ...]
    fields: Mapping[str, Field]
    metadata: Mapping[bytes, bytes]
    rows: int | None = None
    untyped: bool = False

    def batches(self, fields: Sequence[Field]) -> Iterator[list[pa.Array]]:
        for path in self.paths:
            with readable(path, _KIND):
                for batch in _open(path).batches():
                    yield [sound(pick(batch, field), str(path)) for field in fields]

    def cells(self, field: Field) -> Cells:
        return keep((array for (array,) in self.batches([field])), str(self.paths[0]))


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


def _open(path: Path) -> _OpenFile:
    check_file(path, _KIND, _FILE_MAGIC)
    with readable(path, _KIND):
        return _open_buffer(pa.memory_map(str(path)).read_buffer())


def _is_mapped(path: Path, file: _OpenFile) -> bool:
    """Tell whether batches lie in the file itself, and take no memory."""
    with readable(path, _KIND):
        first = next(_open_buffer(file.whole).batches(), None)
        columns = first.columns if first is not None else []
        parts = [part for column in columns for part in column.buffers() if part]
    start, end = file.whole.address, file.whole.address + file.whole.size
    return all(start <= part.address < end for part in parts if part.size)


def _open_buffer(whole: pa.Buffer) -> _OpenFile:
    is_file = whole.slice(0, len(_FILE_MAGIC)).to_pybytes() == _FILE_MAGIC
    open_reader = pa.ipc.open_file if is_file else pa.ipc.open_stream
    return _OpenFile(whole, open_reader(whole))
