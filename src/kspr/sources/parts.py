"""Parquet and Arrow files as tables of parts: a part is a start and a way to read its rows.

Listing the parts reads footers only. A part can be read by any process that reaches its file.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from kspr.errors import InputError
from kspr.sources.formats import local, open_input
from kspr.sources.readers.file_checks import (
    IN_MEMORY,
    check_file,
    listed,
    readable,
    too_large,
    unpacked_limit,
)
from kspr.sources.readers.table import (
    Cells,
    Field,
    Segment,
    Table,
    fields_of,
    keep,
    pick,
    rows_per_block,
    sound,
)

Kind = Literal["parquet", "arrow"]

_KINDS = {"parquet": "a parquet file", "arrow": "an Arrow file"}
_MAGIC = {"parquet": b"PAR1", "arrow": b"ARROW1"}
_WIDTHS = {"INT64": 8, "DOUBLE": 8, "INT96": 12}
"""Bytes of a number by the type in which parquet stores it; 4 for all others."""
# A column is read through a buffer of this size, not a whole row group at once.
_BUFFER = 1 << 16


@dataclass(frozen=True)
class Part:
    """Neighbouring rows of a source: those of a file, or of some of its row groups."""

    uri: str
    """Path or address of the file."""
    kind: Kind
    start: int
    """Number of the first row in the source."""
    groups: tuple[int, ...]
    """Rows of each row group (parquet) or record batch (Arrow)."""
    first_group: int = 0
    """Number of the first of these groups in the file."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(self.groups)

    @property
    def schema(self) -> pa.Schema:
        """Columns of the file."""
        if self.kind == "arrow":
            return _open_arrow(self.uri)[0].schema
        with readable(self.uri, _KINDS[self.kind]), _open_parquet(self.uri) as file:
            return file.schema_arrow

    def split(self) -> tuple["Part", ...]:
        """Return the row groups as parts."""
        starts = [self.start + sum(self.groups[:number]) for number in range(len(self.groups))]
        return tuple(
            replace(self, start=start, groups=(rows,), first_group=self.first_group + number)
            for number, (start, rows) in enumerate(zip(starts, self.groups, strict=True))
        )

    def read(self, fields: Sequence[Field]) -> list[pa.ChunkedArray]:
        """Return the values of columns. Members of a struct are columns too.

        Raise `InputError` if the file is damaged.
        """
        # Threads of Arrow would compete with those that ask for rows.
        blocks = list(self.blocks(fields, use_threads=False))
        return [
            pa.chunked_array([arrays[number] for arrays in blocks], field.type)
            for number, field in enumerate(fields)
        ]

    def blocks(
        self, fields: Sequence[Field], *, use_threads: bool = True, check: bool = True
    ) -> Iterator[list[pa.Array]]:
        """Yield what `read` returns, a block of rows at a time.

        Without `check`, the arrays are as Arrow has them: those of a mapped file are not looked at.
        """
        # A part without rows may have other types: its writer could not know them.
        if not self.n_rows:
            return
        with readable(self.uri, _KINDS[self.kind]):
            for batch in self._batches(fields, use_threads):
                arrays = [_typed(pick(batch, field), field) for field in fields]
                yield [sound(array, self.uri) for array in arrays] if check else arrays

    def _batches(self, fields: Sequence[Field], use_threads: bool) -> Iterator[pa.RecordBatch]:
        if self.kind == "arrow":
            return _arrow_blocks(self, fields)
        return _parquet_blocks(self, [field.name for field in fields], use_threads)

    @property
    def numbers(self) -> range:
        """Numbers of the row groups in the file."""
        return range(self.first_group, self.first_group + len(self.groups))


class FilesTable(Table):
    """The table of parquet or Arrow files with the same columns, or of some of their parts."""

    def __init__(self, parts: tuple[Part, ...], schema: pa.Schema) -> None:
        super().__init__(schema, parts[0].uri, sum(part.n_rows for part in parts))
        self.parts = parts

    def batches(self, fields: Sequence[Field]) -> Iterator[list[pa.Array]]:
        """Yield the fields' arrays, a block of rows at a time."""
        for part in self.parts:
            yield from part.blocks(fields)

    def cells(self, field: Field) -> Cells:
        """Return one field's values."""
        in_file = True
        if self.parts[0].kind == "arrow":
            in_file = not all(_is_mapped(part.uri) for part in self.parts)
        else:
            groups = [group for part in self.parts for group in part.split()]
            sizes = [size for part in self.parts for size in _group_sizes(part, [field.name])]
            # A row group that does not fit into memory cannot be loaded for one cell.
            if max(sizes) <= IN_MEMORY:
                return Cells(
                    Segment(group.n_rows, size, partial(_load, group, field))
                    for group, size in zip(groups, sizes, strict=True)
                )
        blocks = (part.blocks([field], check=False) for part in self.parts)
        chunks = (arrays[0] for arrays in chain.from_iterable(blocks))
        return keep(chunks, self.parts[0].uri, in_file=in_file)


def _typed(array: Any, field: Field) -> Any:
    return array if array.type == field.type else array.cast(field.type)


def _load(group: Part, field: Field) -> pa.ChunkedArray:
    return group.read([field])[0]


def open_files(uris: Sequence[str], kind: Kind) -> FilesTable:
    """Return the table of files, in their order, each of them a part.

    Raise `InputError` if a column is missing in one of them, or has another type. Parts without
    rows are let through.
    """
    parts: list[Part] = []
    schemas: list[tuple[str, pa.Schema]] = []
    start = 0
    for uri in uris:
        schema, groups = (_parquet_groups if kind == "parquet" else _arrow_groups)(uri)
        parts.append(Part(uri, kind, start, groups))
        schemas.append((uri, schema))
        start += parts[-1].n_rows
    filled = [about for part, about in zip(parts, schemas, strict=True) if part.n_rows]
    for other in filled[1:]:
        _check_alike(filled[0], other)
    return FilesTable(tuple(parts), (filled or schemas)[0][1])


def _check_alike(first: tuple[str, pa.Schema], other: tuple[str, pa.Schema]) -> None:
    """Raise if two files differ in their columns or types; the order of columns may differ."""
    (one, expected), (two, schema) = first, other
    for uri, columns in (first, other):
        fields_of(columns, uri)
    # By default `equals` leaves metadata aside.
    if schema.equals(expected):
        return
    for has, lacks, column in ((one, two, expected), (two, one, schema)):
        names = set((schema if column is expected else expected).names)
        missing = [name for name in column.names if name not in names]
        if missing:
            raise InputError(
                f"{has} has the column{'s' * (len(missing) > 1)} {listed(missing, 5)}, and {lacks} "
                "does not. The parts of a source must have the same columns."
            )
    for name in expected.names:
        if schema.field(name).type != expected.field(name).type:
            raise InputError(
                f"Column {name!r} of {two} holds {schema.field(name).type}, but in {one} it holds "
                f"{expected.field(name).type}. Write all parts with the same types."
            )


def _check_nature(uri: str, kind: Kind) -> None:
    path = local(uri)
    if path is not None:
        check_file(path, _KINDS[kind], _MAGIC[kind])


def _limit(uri: str) -> int:
    with readable(uri, "a file"), open_input(uri) as source:
        return unpacked_limit(source.size())


def _open_parquet(uri: str) -> Any:
    # Pre-buffering would hold the whole row group in memory.
    return pq.ParquetFile(open_input(uri), buffer_size=_BUFFER, pre_buffer=False)


def _parquet_groups(uri: str) -> tuple[pa.Schema, tuple[int, ...]]:
    _check_nature(uri, "parquet")
    with readable(uri, _KINDS["parquet"]), _open_parquet(uri) as file:
        groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
        unpacked = sum(_unpacked(chunk) for group in groups for chunk in _chunks(group))
        if unpacked > (limit := _limit(uri)):
            raise too_large(uri, limit)
        return file.schema_arrow, tuple(group.num_rows for group in groups)


def _parquet_blocks(part: Part, names: list[str], use_threads: bool) -> Iterator[pa.RecordBatch]:
    step = rows_per_block(part.n_rows, sum(_group_sizes(part, names)))
    with _open_parquet(part.uri) as file:
        yield from file.iter_batches(
            step, row_groups=list(part.numbers), columns=names, use_threads=use_threads
        )


def _group_sizes(part: Part, names: Sequence[str]) -> list[int]:
    """Return how many bytes columns take in each row group of a part, as the footer says."""
    # Lists and structs are stored as leaves, such as emb.list.element and image.bytes.
    whole, inside = set(names), tuple(f"{name}." for name in names)
    with readable(part.uri, _KINDS["parquet"]), _open_parquet(part.uri) as file:
        groups = [file.metadata.row_group(number) for number in part.numbers]
        return [
            sum(
                _unpacked(chunk)
                for chunk in _chunks(group)
                if chunk.path_in_schema in whole or chunk.path_in_schema.startswith(inside)
            )
            for group in groups
        ]


def _chunks(group: Any) -> Iterator[Any]:
    """Yield what a footer says about each column of a row group."""
    return map(group.column, range(group.num_columns))


def _unpacked(chunk: Any) -> int:
    """Return how many bytes a column of a row group takes in memory, at least."""
    # Equal values are stored once, and the size that the footer names is that of the one.
    plain = _WIDTHS.get(chunk.physical_type, 4) * chunk.num_values
    return int(max(chunk.total_uncompressed_size, plain))


def _open_arrow(uri: str) -> tuple[Any, pa.Buffer | None]:
    """Return a reader of an Arrow file (Feather is one) or stream, and the file if it is mapped."""
    _check_nature(uri, "arrow")
    with readable(uri, _KINDS["arrow"]):
        if local(uri) is None:
            source, whole = open_input(uri), None
            head = source.read_at(len(_MAGIC["arrow"]), 0)
        else:
            source = whole = pa.memory_map(uri).read_buffer()
            head = whole.slice(0, len(_MAGIC["arrow"])).to_pybytes()
        reader = pa.ipc.open_file if head == _MAGIC["arrow"] else pa.ipc.open_stream
        return reader(source), whole


def _arrow_batches(reader: Any, numbers: range | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the record batches with these numbers, all by default."""
    if isinstance(reader, pa.RecordBatchFileReader):
        yield from map(reader.get_batch, numbers or range(reader.num_record_batches))
    elif numbers is None:
        yield from reader
    else:
        yield from islice(reader, numbers.start, numbers.stop)


def _arrow_groups(uri: str) -> tuple[pa.Schema, tuple[int, ...]]:
    reader, _ = _open_arrow(uri)
    limit, unpacked, groups = _limit(uri), 0, []
    with readable(uri, _KINDS["arrow"]):
        # Its index does not say how many rows a batch has. Batches of a mapped file are not read.
        for batch in _arrow_batches(reader):
            groups.append(batch.num_rows)
            if (unpacked := unpacked + batch.nbytes) > limit:
                raise too_large(uri, limit)
    return reader.schema, tuple(groups)


def _arrow_blocks(part: Part, fields: Sequence[Field]) -> Iterator[pa.RecordBatch]:
    reader, _ = _open_arrow(part.uri)
    roots = list(dict.fromkeys(field.path[0] for field in fields))
    for batch in _arrow_batches(reader, part.numbers):
        columns = pa.Table.from_batches([batch.select(roots)])
        yield from columns.to_batches(rows_per_block(columns.num_rows, columns.nbytes))


def _is_mapped(uri: str) -> bool:
    """Return whether batches lie in the mapped file itself, and so take no memory."""
    reader, whole = _open_arrow(uri)
    if whole is None:
        return False
    with readable(uri, _KINDS["arrow"]):
        first = next(_arrow_batches(reader), None)
        columns = first.columns if first is not None else []
        buffers = [buffer for column in columns for buffer in column.buffers() if buffer]
    # Arrow unpacks compressed buffers into new memory, outside of the mapped file.
    start, end = whole.address, whole.address + whole.size
    return all(start <= buffer.address < end for buffer in buffers if buffer.size)
