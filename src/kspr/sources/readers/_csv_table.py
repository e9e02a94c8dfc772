"""CSV and TSV files as tables: types by the first block, rows block by block."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from kspr.errors import InputError
from kspr.sources.formats import delimiter_of
from kspr.sources.readers._spill import keep
from kspr.sources.readers.csv_faults import NULLS, explain, split_by
from kspr.sources.readers.file_checks import GZIP, check_file, readable, shown
from kspr.sources.readers.table import Cells, Columns, Field, fields_of

__all__ = ["CsvTable", "first_line", "open_csv_table"]

_KIND = "a CSV or TSV table"
# A row must fit into a block.
_BLOCK = 8 << 20
_LIST = pa.list_(pa.float32())


# Spelled otherwise (007, +1, 1., -0), a number would not come back as it was written.
_WHOLE = r"^(0|-?[1-9][0-9]{0,17})$"
_DECIMAL = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
# Zeros in front, the point and the exponent: none of them is a digit to be kept.
_INSIGNIFICANT = r"^-?0*\.?0*|\.|[eE].*$"
_EXACT_DIGITS = 15
"""Digits that double precision can always give back."""


@dataclass(frozen=True)
class CsvTable:
    """A text table; numbers are read as single precision."""

    path: Path
    delimiter: str
    fields: Mapping[str, Field]
    metadata: Mapping[bytes, bytes]
    rows: int | None = None
    untyped: bool = True

    def batches(self, fields: Sequence[Field]) -> Iterator[list[pa.Array]]:
        # Arrow's CSV reader has no lists; they are parsed from their text.
        types = {f.name: pa.string() if f.type == _LIST else f.type for f in fields}
        try:
            for batch in _open(self.path, self.delimiter, types):
                yield [self._convert(batch.column(f.name), f) for f in fields]
        except (pa.ArrowException, UnicodeDecodeError) as error:
            numeric = [f.name for f in fields if pa.types.is_floating(f.type)]
            raise explain(self.path, self.delimiter, numeric, error) from error

    def cells(self, field: Field) -> Cells:
        literal = replace(field, type=pa.string())
        return keep((array for (array,) in self.batches([literal])), str(self.path))

    def columns(self, *, as_text: bool = False) -> Columns:
        texts = pa.schema([(name, pa.string()) for name in self.fields])
        if as_text:
            return Columns(texts, self._walk)
        typed = pa.schema(list(zip(texts.names, _plain_types(self._walk(), texts), strict=True)))
        return Columns(typed, lambda: (batch.cast(typed) for batch in self._walk()))

    def _walk(self) -> Iterator[pa.RecordBatch]:
        """Yield every cell as it is written; None where nothing is, not even quotes."""
        types = dict.fromkeys(self.fields, pa.string())
        try:
            yield from _open(self.path, self.delimiter, types, literal=True)
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise explain(self.path, self.delimiter, [], error) from error

    def _convert(self, array: pa.Array, field: Field) -> pa.Array:
        return _parse_lists(array, field.name, self.path) if field.type == _LIST else array


def open_csv_table(path: Path) -> CsvTable:
    """Return the table at `path`; raise if its header or its first block cannot be read."""
    # Compressed or not is told by the suffix, because Arrow goes by it too.
    gzipped = GZIP if path.suffix.lower() == ".gz" else ()
    head = check_file(path, _KIND, *gzipped)
    if not gzipped:
        _check_text(path, head)
    delimiter = _delimiter(path)
    try:
        with readable(path, _KIND):
            first = _first_block(path, delimiter)
    except InputError as error:
        cause = error.__cause__
        if isinstance(cause, (pa.ArrowInvalid, UnicodeDecodeError)):
            raise explain(path, delimiter, [], cause) from cause
        raise
    _check_header(path, first.schema.names)
    schema = pa.schema([(f.name, _declared(first.column(f.name))) for f in first.schema])
    return CsvTable(path, delimiter, fields_of(schema, str(path)), {})


def _open(
    path: Path,
    delimiter: str,
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
        pa.input_stream(str(path)),
        read_options=pacsv.ReadOptions(block_size=_BLOCK),
        # Quoted cells may hold line ends; spreadsheets leave empty lines at the end.
        parse_options=pacsv.ParseOptions(
            delimiter=delimiter, newlines_in_values=True, ignore_empty_lines=True
        ),
        convert_options=pacsv.ConvertOptions(**missing, **chosen),
    )


def _first_block(path: Path, delimiter: str) -> pa.RecordBatch:
    with _open(path, delimiter, None) as reader:
        names = reader.schema.names
        _check_unique(path, names)
        for batch in reader:
            if batch.num_rows:
                return batch
    raise InputError(f"{path} has no rows below its header.")


def _check_text(path: Path, head: bytes) -> None:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(
            f"{path} is encoded as UTF-16. Save it as UTF-8, for example with "
            "`iconv -f UTF-16 -t UTF-8`."
        )
    if b"\0" in head:
        raise InputError(f"{path} is not {_KIND}: it holds binary data. Correct its suffix.")


def first_line(path: Path) -> bytes:
    """Return the beginning of a text file, as far as its first line goes."""
    check_file(path, _KIND, *GZIP)
    with readable(path, _KIND), pa.input_stream(str(path)) as file:
        return bytes(file.read(1 << 16)).partition(b"\n")[0]


def _delimiter(path: Path) -> str:
    """Return the usual delimiter of the suffix, or the one that the header line has."""
    return split_by(first_line(path).decode("utf-8", "replace"), delimiter_of(path))


def _check_unique(path: Path, names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        _check_header(path, names)
        fields_of(pa.schema([(name, pa.null()) for name in names]), str(path))


def _check_header(path: Path, names: Sequence[str]) -> None:
    """Raise if the first line is data: fractions are no column names, whole numbers may be."""
    for name in names:
        if not name.strip().isdigit() and _is_number(name):
            raise InputError(
                f"{path} has no header: its first line holds the value {shown(name)}. Add a line "
                "of column names."
            )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    # float() takes these words, but they may as well be names of columns.
    return text.strip().lower().lstrip("+-") not in {"nan", "inf", "infinity"}


def _declared(column: pa.Array) -> pa.DataType:
    """Return the type that a column is read as, judged by its first block."""
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return pa.float32()
    if pa.types.is_boolean(kind):
        return kind
    if pa.types.is_string(kind):
        if _looks_like_lists(column):
            return _LIST
        if _mostly_numbers(column):
            # A few words among numbers are an error to report, by row; as text, the column would
            # silently be no feature.
            return pa.float32()
    return pa.string()


def _looks_like_lists(column: pa.Array) -> bool:
    ends = pc.match_substring_regex(column, r"^\s*\[[^\[\]]*\d[^\[\]]*\]\s*$")
    # None for a column without any value, which is no column of lists.
    return pc.all(ends).as_py() is True


def _mostly_numbers(column: pa.Array) -> bool:
    sample = [value for value in column.slice(0, 1000).to_pylist() if value]
    return bool(sample) and sum(map(_is_number, sample)) > len(sample) / 2


def _plain_types(batches: Iterator[pa.RecordBatch], texts: pa.Schema) -> list[pa.DataType]:
    """Return the type that holds each column without loss: whole or decimal numbers, or text."""
    found = ["empty"] * len(texts)
    for batch in batches:
        found = [_join(kind, column) for kind, column in zip(found, batch.columns, strict=True)]
    types = {"whole": pa.int64(), "long": pa.int64(), "decimal": pa.float64()}
    return [types.get(kind, pa.string()) for kind in found]


def _join(kind: str, column: pa.Array) -> str:
    """Return what a column holds so far: empty, whole, long (many digits), decimal or text."""
    if kind == "text" or column.null_count == len(column):
        return kind
    if kind != "decimal" and _all(pc.match_substring_regex(column, _WHOLE)):
        return "whole" if kind != "long" and _all(_few_digits(column)) else "long"
    # Whole numbers of many digits cannot become doubles for the sake of a fraction further down.
    exact = kind != "long" and _all(pc.match_substring_regex(column, _DECIMAL))
    return "decimal" if exact and _gives_back(column) else "text"


def _few_digits(column: pa.Array) -> Any:
    digits = pc.utf8_length(pc.replace_substring_regex(column, _INSIGNIFICANT, ""))
    return pc.less_equal(digits, _EXACT_DIGITS)


def _gives_back(column: pa.Array) -> bool:
    number = column.cast(pa.float64())
    # 16 and 17 digits may be exact too; writing them back shows it.
    same = pc.equal(number.cast(pa.string()), column)
    return _all(pc.and_(pc.is_finite(number), pc.or_(_few_digits(column), same)))


def _all(mask: Any) -> bool:
    # None where every value is missing: nothing speaks against the type.
    return pc.all(mask).as_py() is not False


def _can_be_cast(word: Any) -> bool:
    try:
        word.cast(pa.float32())
    except pa.ArrowInvalid:
        return False
    return True


def _parse_lists(column: pa.Array, name: str, path: Path) -> pa.Array:
    """Return lists of numbers written as ``[0.1, 0.2]`` or ``[0.1 0.2]``."""
    inside = pc.utf8_trim(column, " \t\r\n[]")
    words = pc.split_pattern_regex(inside, r"[\s,;]+")
    try:
        values = words.flatten().cast(pa.float32())
    except pa.ArrowInvalid as error:
        bad = next((word for word in words.flatten() if not _can_be_cast(word)), None)
        raise InputError(
            f"Feature column {name!r} of {path} holds {shown(str(bad))} within a list. Write the "
            "numbers in full."
        ) from error
    return pa.ListArray.from_arrays(words.offsets, values)
