"""CSV and TSV files as tables: types by the first block, rows block by block, and what is wrong.

The explanations of a failure run only after it, so that they may read the file once more.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from io import BufferedReader
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from kspr.errors import InputError
from kspr.sources.formats import delimiter_of
from kspr.sources.readers.file_checks import (
    BLOCK_BYTES,
    IN_MEMORY,
    PlainText,
    explain_encoding,
    plain_text,
    readable,
    shown,
)
from kspr.sources.readers.table import Cells, Columns, Field, Table, keep

__all__ = ["NULLS", "first_line", "is_number", "open_csv_table", "open_lines", "split_by"]

_KIND = "a CSV or TSV table"
NULLS = ["", "#N/A", "N/A", "NA", "NULL", "NaN", "-NaN", "-nan", "None", "n/a", "nan", "null", "?"]
"""What stands for a missing number."""
LISTS = pa.list_(pa.float64())
"""The type of a column of lists written as text."""


class CsvTable(Table):
    """A text table."""

    untyped = True

    def __init__(self, text: PlainText, dialect: "_Dialect", schema: pa.Schema) -> None:
        super().__init__(schema, str(text.path))
        self.text, self.dialect = text, dialect
        name, notes = text.path.name, []
        if text.encoding != "utf-8":
            notes.append(f"{name} is read as {text.encoding}.")
        if dialect.decimal == ",":
            notes.append(f"Commas in the numbers of {name} are read as decimal commas.")
        self.notes = tuple(notes)

    def batches(self, fields: Sequence[Field]) -> Iterator[list[pa.Array]]:
        # Arrow's CSV reader has no lists; they are parsed from their text.
        types = {f.name: pa.string() if f.type == LISTS else f.type for f in fields}
        for batch in _blocks(self.text, self.dialect, types):
            yield [self._convert(batch.column(f.name), f) for f in fields]

    def cells(self, field: Field) -> Cells:
        literal = replace(field, type=pa.string())
        chunks = (array for (array,) in self.batches([literal]))
        # A column is at most as large as its file.
        with self.text.open() as file:
            large = file.size() > IN_MEMORY
        return keep(chunks, self.where, in_file=large)

    def columns(self, *, as_text: bool = False) -> Columns:
        texts = pa.schema([(name, pa.string()) for name in self.fields])
        if as_text:
            return Columns(texts, self._walk)
        typed = pa.schema(list(zip(texts.names, _plain_types(self._walk(), texts), strict=True)))
        return Columns(typed, lambda: (batch.cast(typed) for batch in self._walk()))

    def _walk(self) -> Iterator[pa.RecordBatch]:
        """Yield every cell as it is written; None where nothing is, not even quotes."""
        types = dict.fromkeys(self.fields, pa.string())
        return _blocks(self.text, self.dialect, types, literal=True)

    def _convert(self, array: pa.Array, field: Field) -> pa.Array:
        return parse_lists(array, field.name, self.text.path) if field.type == LISTS else array

    @property
    def delimiter(self) -> str:
        """What separates the cells."""
        return self.dialect.delimiter


class _Dialect(NamedTuple):
    delimiter: str
    decimal: str = "."
    table: bool = True
    """Whether there are a header and cells, which may be quoted; else each line is one value."""


def open_csv_table(path: Path, encoding: str | None = None, decimal: str | None = None) -> CsvTable:
    """Return the table at `path`; raise if its header or its first block cannot be read.

    Without `decimal`, a comma is a decimal mark only if it does not separate cells, and if the
    numbers of the first block leave no doubt.
    """
    text = plain_text(path, _KIND, encoding)
    dialect = _Dialect(split_by(first_line(text), delimiter_of(path)), decimal or ".")
    if dialect.delimiter == dialect.decimal:
        raise InputError(f"--decimal is a comma, but commas separate the cells of {path}.")
    first = _first_block(text, dialect)
    if decimal is None and dialect.delimiter != "," and has_decimal_commas(first, path):
        dialect = dialect._replace(decimal=",")
        first = _first_block(text, dialect)
    _check_header(path, first.schema.names)
    types = [declared(column, dialect.decimal) for column in first.columns]
    return CsvTable(text, dialect, pa.schema(list(zip(first.schema.names, types, strict=True))))


def open_lines(text: PlainText) -> CsvTable:
    """Return the lines of a text file as a column ``line``; empty ones are empty texts."""
    # What separates units in old files: no line that a person has written has it.
    return CsvTable(text, _Dialect("\x1f", table=False), pa.schema([("line", pa.string())]))


def _blocks(
    text: PlainText,
    dialect: _Dialect,
    types: Mapping[str, pa.DataType] | None = None,
    literal: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield blocks of rows: the columns in `types`, or all with types that are guessed.

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
    try:
        reader = pacsv.open_csv(
            text.open(),
            # A row must fit into a block.
            read_options=pacsv.ReadOptions(
                block_size=BLOCK_BYTES, column_names=None if dialect.table else ["line"]
            ),
            # Quoted cells may hold line ends; spreadsheets leave empty lines at the end.
            parse_options=pacsv.ParseOptions(
                delimiter=dialect.delimiter,
                quote_char='"' if dialect.table else False,
                newlines_in_values=dialect.table,
                ignore_empty_lines=dialect.table,
            ),
            convert_options=pacsv.ConvertOptions(
                decimal_point=dialect.decimal, **missing, **chosen
            ),
        )
        list(reader.schema.names)  # which may not be UTF-8, as any cell
        yield from reader
    except (pa.ArrowException, UnicodeDecodeError) as error:
        numeric = [name for name, kind in (types or {}).items() if pa.types.is_floating(kind)]
        raise explain(text, dialect, numeric, error) from error


def _first_block(text: PlainText, dialect: _Dialect) -> pa.RecordBatch:
    with readable(text.path, _KIND):
        filled = (batch for batch in _blocks(text, dialect) if batch.num_rows)
        first = next(filled, None)
    if first is None:
        raise InputError(f"{text.path} has no rows below its header.")
    return first


def first_line(text: PlainText) -> str:
    """Return the beginning of a text file, as far as its first line goes."""
    with readable(text.path, _KIND), text.open() as file:
        return str(file.read(1 << 16).partition(b"\n")[0], "utf-8", "replace")


def split_by(header: str, usual: str = ",") -> str:
    """Return the delimiter of a header line: `usual` if it is in it, else ; or tab or comma."""
    return next((mark for mark in (usual, ";", "\t", ",") if mark in header), usual)


def _check_header(path: Path, names: Sequence[str]) -> None:
    """Raise if the first line is data: fractions are no column names, whole numbers may be."""
    for name in names:
        if not name.strip().isdigit() and is_number(name):
            raise InputError(
                f"{path} has no header: its first line holds the value {shown(name)}. Add a line "
                "of column names."
            )


# Spelled otherwise (007, +1, 1., -0), a number would not come back as it was written.
_WHOLE = r"^(0|-?[1-9][0-9]{0,17})$"
_DECIMAL = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_COMMA_NUMBER = r"^\s*[+-]?[0-9]*(,[0-9]+)?([eE][+-]?[0-9]+)?\s*$"
# No thousands stand behind a zero, and none have fewer or more than three digits.
_NOT_THOUSANDS = r"^\s*[+-]?(0*,|[0-9]{4,},|[0-9]+,([0-9]+[eE]|([0-9]{1,2}|[0-9]{4,})\s*$))"
# Zeros in front, the point and the exponent: none of them is a digit to be kept.
_INSIGNIFICANT = r"^-?0*\.?0*|\.|[eE].*$"
_EXACT_DIGITS = 15
"""Digits that double precision can always give back."""


def is_number(text: str) -> bool:
    """Return whether a text is a number, written with a decimal point."""
    try:
        float(text)
    except ValueError:
        return False
    # float() takes these words, but they may as well be names of columns.
    return text.strip().lower().lstrip("+-") not in {"nan", "inf", "infinity"}


def has_decimal_commas(first: pa.RecordBatch, path: Path) -> bool:
    """Return whether commas within numbers are decimal marks; raise if they may be either.

    ``1,234`` may mean two numbers. ``0,5``, ``1,25`` and ``1,2345`` mean one.
    """
    texts = [column for column in first.columns if pa.types.is_string(column.type)]
    numbers = [c for c in texts if _all(pc.match_substring_regex(c, _COMMA_NUMBER))]
    with_commas = [c for c in numbers if pc.any(pc.match_substring(c, ",")).as_py()]
    if not with_commas:
        return False
    if any(pc.any(pc.match_substring_regex(c, _NOT_THOUSANDS)).as_py() for c in with_commas):
        return True
    value = next(value.as_py() for value in with_commas[0] if "," in (value.as_py() or ""))
    raise InputError(
        f"{path} holds {shown(value)}: a decimal comma, or one between thousands. Pass --decimal "
        "',' for the first; for the second, take the commas out."
    )


def declared(column: pa.Array, decimal: str) -> pa.DataType:
    """Return the type that a column is read as, judged by its first block."""
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_boolean(kind):
        return kind
    if not pa.types.is_string(kind):
        return pa.string()
    lists = pc.match_substring_regex(column, r"^\s*\[[^\[\]]*\d[^\[\]]*\]\s*$")
    # None for a column without any value, which is no column of lists.
    if pc.all(lists).as_py() is True:
        return LISTS
    sample = [value.replace(decimal, ".") for value in column.slice(0, 1000).to_pylist() if value]
    # A few words among numbers are an error to report, by row; as text, the column would silently
    # be no feature.
    return pa.float64() if sum(map(is_number, sample)) > len(sample) / 2 else pa.string()


def _plain_types(batches: Iterator[pa.RecordBatch], texts: pa.Schema) -> list[pa.DataType]:
    """Return the type that holds each column without loss: whole or decimal numbers, or text."""
    whole, decimal, filled = ([start] * len(texts) for start in (True, True, False))
    for batch in batches:
        for number, column in enumerate(batch.columns):
            filled[number] |= column.null_count < len(column)
            if decimal[number] or whole[number]:
                whole[number] &= _all(pc.match_substring_regex(column, _WHOLE))
                decimal[number] &= _gives_back(column)
    return [
        pa.int64() if w and f else pa.float64() if d and f else pa.string()
        for w, d, f in zip(whole, decimal, filled, strict=True)
    ]


def _gives_back(column: pa.Array) -> bool:
    """Return whether double precision gives back the cells as they are written."""
    if not _all(pc.match_substring_regex(column, _DECIMAL)):
        return False
    number = column.cast(pa.float64())
    # 16 and 17 digits may be exact too; writing them back shows it.
    same = pc.equal(number.cast(pa.string()), column)
    digits = pc.utf8_length(pc.replace_substring_regex(column, _INSIGNIFICANT, ""))
    exact = pc.or_(pc.less_equal(digits, _EXACT_DIGITS), same)
    return _all(pc.and_(pc.is_finite(number), exact))


def _all(mask: Any) -> bool:
    # None where every value is missing: nothing speaks against the type.
    return pc.all(mask).as_py() is not False


def parse_lists(column: pa.Array, name: str, path: Path) -> pa.Array:
    """Return lists of numbers written as ``[0.1, 0.2]`` or ``[0.1 0.2]``."""
    inside = pc.utf8_trim(column, " \t\r\n[]")
    words = pc.split_pattern_regex(inside, r"[\s,;]+")
    try:
        values = words.flatten().cast(pa.float64())
    except pa.ArrowInvalid as error:
        bad = next((word for word in words.flatten().to_pylist() if not is_number(word)), None)
        raise InputError(
            f"Feature column {name!r} of {path} holds {shown(bad)} within a list. Write the "
            "numbers in full."
        ) from error
    return pa.ListArray.from_arrays(words.offsets, values)


def explain(
    text: PlainText, dialect: _Dialect, numeric: Sequence[str], error: Exception
) -> InputError:
    """Return the sentence for a file that Arrow refused with `error`."""
    said = _wrong_line(text)
    if said is None and dialect.table:
        said = _wrong_cell(text, dialect, numeric)
    reason = " ".join(str(error).split())[:120]
    return said or InputError(f"{text.path} cannot be read as a table ({reason}).")


def _wrong_line(text: PlainText) -> InputError | None:
    """Return the sentence for the first line that is too long, or not UTF-8."""
    start = 0
    with BufferedReader(text.open()) as file:
        for number in count():
            line = file.readline(BLOCK_BYTES + 1)
            if len(line) > BLOCK_BYTES:
                return _too_long(text, "line", number + 1)
            try:
                line.decode()
            except UnicodeDecodeError as error:
                return explain_encoding(text.path, error, number, start)
            if not line:
                break
            start += len(line)
    return None


def _too_long(text: PlainText, what: str, line: int) -> InputError:
    return InputError(
        f"{text.path} has more than {BLOCK_BYTES >> 20} MB in one {what}, line {line}; no table "
        "has. A line end or a closing quote is missing there, or it is a file of another kind."
    )


def _wrong_cell(text: PlainText, dialect: _Dialect, numeric: Sequence[str]) -> InputError | None:
    # Arrow takes longer cells than Python does, whose limit is one of the whole process.
    usual = csv.field_size_limit(BLOCK_BYTES)
    with text.lines() as file:
        lines = csv.reader(file, delimiter=dialect.delimiter)
        try:
            return _first_wrong(text.path, lines, dialect.decimal, numeric)
        # A quote is never closed.
        except csv.Error:
            return _too_long(text, "cell", lines.line_num)
        finally:
            csv.field_size_limit(usual)


def _first_wrong(path: Path, lines: Any, decimal: str, numeric: Sequence[str]) -> InputError | None:
    header: list[str] = next(lines, [])
    row = -1
    columns = [(header.index(name), name) for name in numeric if name in header]
    # Arrow passes over empty lines, so they do not count as rows here either.
    for row, cells in enumerate(filter(None, lines)):
        if len(cells) != len(header):
            return InputError(
                f"{path} has {len(cells)} cells in line {lines.line_num} where its header has "
                f"{len(header)}. Correct the line; a cell with a comma in it needs quotes."
            )
        for position, name in columns:
            if not _is_numeric(cells[position], decimal):
                mark = " with a decimal comma" if decimal == "," else ""
                return InputError(
                    f"Feature column {name!r} of {path} must hold numbers{mark}, got "
                    f"{shown(cells[position])} in row {row}. Correct it, or name other columns "
                    "with --features."
                )
    return None if row >= 0 else InputError(f"{path} has no rows below its header.")


def _is_numeric(cell: str, decimal: str) -> bool:
    if decimal == "," and "." in cell:
        return False
    try:
        float(cell.replace(decimal, "."))
    except ValueError:
        return cell in NULLS
    # float() takes 1_000, Arrow does not.
    return "_" not in cell
