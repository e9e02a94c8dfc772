"""CSV and TSV files as tables: types by the first block, rows block by block."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.csv as pacsv

from kspr.errors import InputError
from kspr.sources.formats import delimiter_of
from kspr.sources.parts import Part
from kspr.sources.readers._csv_types import (
    LISTS,
    declared,
    has_decimal_commas,
    is_number,
    parse_lists,
    plain_types,
)
from kspr.sources.readers._spill import keep
from kspr.sources.readers.csv_faults import NULLS, explain, split_by
from kspr.sources.readers.file_checks import GZIP, check_file, readable, shown
from kspr.sources.readers.plain_text import PlainText, plain_text
from kspr.sources.readers.table import Cells, Columns, Field, fields_of

__all__ = ["CsvTable", "first_line", "open_csv_table"]

_KIND = "a CSV or TSV table"
# A row must fit into a block.
_BLOCK = 8 << 20


@dataclass(frozen=True)
class CsvTable:
    """A text table."""

    text: PlainText
    dialect: "_Dialect"
    fields: Mapping[str, Field]
    metadata: Mapping[bytes, bytes]
    rows: int | None = None
    parts: tuple[Part, ...] = ()
    untyped: bool = True

    def batches(self, fields: Sequence[Field]) -> Iterator[list[pa.Array]]:
        # Arrow's CSV reader has no lists; they are parsed from their text.
        types = {f.name: pa.string() if f.type == LISTS else f.type for f in fields}
        try:
            for batch in _open(self.text, self.dialect, types):
                yield [self._convert(batch.column(f.name), f) for f in fields]
        except (pa.ArrowException, UnicodeDecodeError) as error:
            numeric = [f.name for f in fields if pa.types.is_floating(f.type)]
            raise explain(self.text, *self.dialect, numeric, error) from error

    def cells(self, field: Field) -> Cells:
        literal = replace(field, type=pa.string())
        return keep((array for (array,) in self.batches([literal])), str(self.text.path))

    def columns(self, *, as_text: bool = False) -> Columns:
        texts = pa.schema([(name, pa.string()) for name in self.fields])
        if as_text:
            return Columns(texts, self._walk)
        typed = pa.schema(list(zip(texts.names, plain_types(self._walk(), texts), strict=True)))
        return Columns(typed, lambda: (batch.cast(typed) for batch in self._walk()))

    def _walk(self) -> Iterator[pa.RecordBatch]:
        """Yield every cell as it is written; None where nothing is, not even quotes."""
        types = dict.fromkeys(self.fields, pa.string())
        try:
            yield from _open(self.text, self.dialect, types, literal=True)
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise explain(self.text, *self.dialect, [], error) from error

    def _convert(self, array: pa.Array, field: Field) -> pa.Array:
        return parse_lists(array, field.name, self.text.path) if field.type == LISTS else array

    @property
    def delimiter(self) -> str:
        """What separates the cells."""
        return self.dialect.delimiter

    @property
    def notes(self) -> tuple[str, ...]:
        """What was found out about the file, where it is not the usual."""
        name, found = self.text.path.name, []
        if self.text.encoding != "utf-8":
            found.append(f"{name} is read as {self.text.encoding}.")
        if self.dialect.decimal == ",":
            found.append(f"Commas in the numbers of {name} are read as decimal commas.")
        return tuple(found)


class _Dialect(NamedTuple):
    delimiter: str
    decimal: str = "."


def open_csv_table(path: Path, encoding: str | None = None, decimal: str | None = None) -> CsvTable:
    """Return the table at `path`; raise if its header or its first block cannot be read.

    Without `decimal`, a comma is a decimal mark only if it does not separate cells, and if the
    numbers of the first block leave no doubt.
    """
    text = plain_text(path, _KIND, encoding)
    dialect = _Dialect(_delimiter(text), decimal or ".")
    if dialect.delimiter == dialect.decimal:
        raise InputError(f"--decimal is a comma, but commas separate the cells of {path}.")
    first = _first_block(text, dialect)
    if decimal is None and dialect.delimiter != "," and has_decimal_commas(first, path):
        dialect = dialect._replace(decimal=",")
        first = _first_block(text, dialect)
    _check_header(path, first.schema.names)
    types = [(f.name, declared(first.column(f.name), dialect.decimal)) for f in first.schema]
    return CsvTable(text, dialect, fields_of(pa.schema(types), str(path)), {})


def _open(
    text: PlainText,
    dialect: _Dialect,
    types: Mapping[str, pa.DataType] | None,
    literal: bool = False,
) -> Any:
    """Return a stream of batches: the columns in `types`, or all with types that are guessed.

    With `literal`, words such as NA are texts like any other, not missing values.
    """
    chosen = {"column_types": types, "include_columns": list(types)} if types else {}
    missing: dict[str, Any] = {"null_values": NULLS}
    if literal:
        missing = {
            "null_values": [""],
            "strings_can_be_null": True,
            "quoted_strings_can_be_null": False,
        }
    return pacsv.open_csv(
        # Not by its name, from which Arrow would guess a compression.
        pa.OSFile(str(text.data)),
        read_options=pacsv.ReadOptions(block_size=_BLOCK),
        # Quoted cells may hold line ends; spreadsheets leave empty lines at the end.
        parse_options=pacsv.ParseOptions(
            delimiter=dialect.delimiter, newlines_in_values=True, ignore_empty_lines=True
        ),
        convert_options=pacsv.ConvertOptions(decimal_point=dialect.decimal, **missing, **chosen),
    )


def _first_block(text: PlainText, dialect: _Dialect) -> pa.RecordBatch:
    try:
        with readable(text.path, _KIND), _open(text, dialect, None) as reader:
            _check_unique(text.path, reader.schema.names)
            for batch in reader:
                if batch.num_rows:
                    return batch
    except InputError as error:
        cause = error.__cause__
        if isinstance(cause, (pa.ArrowInvalid, UnicodeDecodeError)):
            raise explain(text, *dialect, [], cause) from cause
        raise
    raise InputError(f"{text.path} has no rows below its header.")


def first_line(path: Path) -> bytes:
    """Return the beginning of a text file, as far as its first line goes."""
    check_file(path, _KIND, *GZIP)
    with readable(path, _KIND), pa.input_stream(str(path)) as file:
        return bytes(file.read(1 << 16)).partition(b"\n")[0]


def _delimiter(text: PlainText) -> str:
    """Return the usual delimiter of the suffix, or the one that the header line has."""
    with readable(text.path, _KIND), text.data.open("rb") as file:
        header = file.read(1 << 16).partition(b"\n")[0]
    return split_by(header.decode("utf-8", "replace"), delimiter_of(text.path))


def _check_unique(path: Path, names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        _check_header(path, names)
        fields_of(pa.schema([(name, pa.null()) for name in names]), str(path))


def _check_header(path: Path, names: Sequence[str]) -> None:
    """Raise if the first line is data: fractions are no column names, whole numbers may be."""
    for name in names:
        if not name.strip().isdigit() and is_number(name):
            raise InputError(
                f"{path} has no header: its first line holds the value {shown(name)}. Add a line "
                "of column names."
            )
