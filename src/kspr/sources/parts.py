"""A source that consists of files: which rows each of them holds, read one row group at a time.

Listing the parts reads footers only. A part can be read by any process that reaches its file.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from kspr.errors import InputError
from kspr.sources.places import local, open_input
from kspr.sources.readers.file_checks import check_file, listed, readable
from kspr.sources.readers.table import Field, pick, sound

__all__ = ["IpcFile", "Part", "list_parts", "open_ipc", "open_parquet"]

Kind = Literal["parquet", "arrow"]

_KINDS = {"parquet": "a parquet file", "arrow": "an Arrow file"}
_PARQUET_MAGIC, _IPC_MAGIC = b"PAR1", b"ARROW1"
# A column is read through a buffer of this size, not a whole row group at once.
_BUFFER = 1 << 16


@dataclass(frozen=True)
class Part:
    """One file of a source."""

    uri: str
    """Its path, or its address."""
    kind: Kind
    first: int
    """Number of its first row in the source."""
    groups: tuple[int, ...]
    """Rows of each row group (parquet) or record batch (Arrow)."""

    @property
    def rows(self) -> int:
        """Number of its rows."""
        return sum(self.groups)

    def read(self, fields: Sequence[Field], group: int | None = None) -> list[pa.ChunkedArray]:
        """Return the values of columns: of one row group, or of the whole part.

        Members of a struct are columns too. Raise `InputError` if the file is damaged.
        """
        with readable(self.uri, _KINDS[self.kind]):
            table = (_parquet_rows if self.kind == "parquet" else _ipc_rows)(self, fields, group)
        # A part without rows may have other types: what wrote it could not know them.
        return [_typed(pick(table, field), field, self.uri) for field in fields]


def list_parts(uris: Sequence[str], kind: Kind) -> tuple[pa.Schema, tuple[Part, ...]]:
    """Return the columns that files have in common, and the files as parts, in their order.

    Raise `InputError` if a column is missing in one of them, or has another type. Parts without
    rows are let through.
    """
    found, first = [], 0
    reference: tuple[str, pa.Schema] | None = None
    for uri in uris:
        schema, groups = (_parquet_groups if kind == "parquet" else _ipc_groups)(uri)
        part = Part(uri, kind, first, groups)
        found.append((part, schema))
        first += part.rows
        if part.rows and reference is None:
            reference = (uri, schema)
        elif part.rows and reference is not None:
            _check_alike(reference, (uri, schema))
    schema = found[0][1] if reference is None else reference[1]
    return schema, tuple(part for part, _ in found)


def _check_alike(first: tuple[str, pa.Schema], other: tuple[str, pa.Schema]) -> None:
    """Raise if two files differ in their columns or types; the order of columns may differ."""
    (one, expected), (two, found) = first, other
    # By default `equals` leaves metadata aside.
    if found.equals(expected):
        return
    for has, lacks, column in ((one, two, expected), (two, one, found)):
        names = set((found if column is expected else expected).names)
        missing = [name for name in column.names if name not in names]
        if missing:
            raise InputError(
                f"{has} has the column{'s' * (len(missing) > 1)} {listed(missing, 5)}, and {lacks} "
                "does not. The parts of a source must have the same columns."
            )
    for name in expected.names:
        if found.field(name).type != expected.field(name).type:
            raise InputError(
                f"Column {name!r} of {two} holds {found.field(name).type}, but in {one} it holds "
                f"{expected.field(name).type}. Write all parts with the same types."
            )


def _typed(column: pa.ChunkedArray, field: Field, where: str) -> pa.ChunkedArray:
    if column.type != field.type:
        column = column.cast(field.type)
    sound(column, where)
    return column


def open_parquet(uri: str) -> Any:
    """Return an open parquet file."""
    # Pre-buffering would hold the whole row group in memory. The footer may be long, and a part is
    # opened for each of its row groups: its metadata are kept.
    return pq.ParquetFile(
        open_input(uri), metadata=_footer(uri), buffer_size=_BUFFER, pre_buffer=False
    )


@lru_cache(maxsize=64)
def _footer_of(uri: str, _: tuple[int, int]) -> Any:
    return pq.read_metadata(open_input(uri))


def _footer(uri: str) -> Any:
    path = local(uri)
    # A file that was written again has another footer.
    about = path.stat() if path is not None else None
    return _footer_of(uri, (0, 0) if about is None else (about.st_mtime_ns, about.st_size))


def _parquet_groups(uri: str) -> tuple[pa.Schema, tuple[int, ...]]:
    _check_nature(uri, "parquet", _PARQUET_MAGIC)
    with readable(uri, _KINDS["parquet"]), open_parquet(uri) as file:
        sizes = (file.metadata.row_group(number).num_rows for number in range(file.num_row_groups))
        return file.schema_arrow, tuple(sizes)


def _parquet_rows(part: Part, fields: Sequence[Field], group: int | None) -> pa.Table:
    names = [field.name for field in fields]
    with open_parquet(part.uri) as file:
        # Its own threads would compete with those that ask for rows.
        if group is None:
            return file.read(columns=names, use_threads=False)
        return file.read_row_group(group, columns=names, use_threads=False)


@dataclass(frozen=True)
class IpcFile:
    """An open Arrow file or stream."""

    whole: pa.Buffer | None
    """The mapped file; None where it is at an address."""
    reader: Any

    @property
    def schema(self) -> pa.Schema:
        """Its columns."""
        return self.reader.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the record batches in order."""
        if isinstance(self.reader, pa.RecordBatchFileReader):
            for number in range(self.reader.num_record_batches):
                yield self.reader.get_batch(number)
        else:
            yield from self.reader

    def again(self) -> "IpcFile":
        """Return a second reader: what is taken from a stream is gone."""
        return self if self.whole is None else _open_ipc_source(self.whole, self.whole)


def open_ipc(uri: str) -> IpcFile:
    """Return an open Arrow file (Feather is one) or stream; memory-mapped if it is here."""
    _check_nature(uri, "arrow", _IPC_MAGIC)
    with readable(uri, _KINDS["arrow"]):
        if local(uri) is None:
            return _open_ipc_source(open_input(uri), None)
        whole = pa.memory_map(uri).read_buffer()
        return _open_ipc_source(whole, whole)


def _open_ipc_source(source: Any, whole: pa.Buffer | None) -> IpcFile:
    if whole is None:
        head = source.read_at(len(_IPC_MAGIC), 0)
    else:
        head = whole.slice(0, len(_IPC_MAGIC)).to_pybytes()
    open_reader = pa.ipc.open_file if head == _IPC_MAGIC else pa.ipc.open_stream
    return IpcFile(whole, open_reader(source))


def _ipc_groups(uri: str) -> tuple[pa.Schema, tuple[int, ...]]:
    file = open_ipc(uri)
    with readable(uri, _KINDS["arrow"]):
        # Its index does not say how many rows a batch has. Batches of a mapped file are not read.
        return file.schema, tuple(batch.num_rows for batch in file.batches())


def _ipc_rows(part: Part, fields: Sequence[Field], group: int | None) -> pa.Table:
    file = open_ipc(part.uri)
    roots = list(dict.fromkeys(field.path[0] for field in fields))
    if group is not None and isinstance(file.reader, pa.RecordBatchFileReader):
        chosen = [file.reader.get_batch(group)]
    else:
        batches = file.batches()
        chosen = list(batches if group is None else islice(batches, group, group + 1))
    return pa.Table.from_batches(chosen, schema=file.schema).select(roots)


def _check_nature(uri: str, kind: Kind, magic: bytes) -> None:
    path = local(uri)
    if path is not None:
        check_file(path, _KINDS[kind], magic)
