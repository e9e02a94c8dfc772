"""CSV and TSV as a table: types from its beginning, then block by block."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from kspr.errors import InputError
from kspr.sources.readers._spill import keep
from kspr.sources.readers._table import Cells, Field, fields_of
from kspr.sources.readers.csv_faults import NULLS, Dialect, explain
from kspr.sources.readers.guard import GZIP, check_file, readable, shown

__all__ = ["CsvTable", "first_line", "has_table_suffix", "open_csv_table"]

_KIND = "a CSV or TSV table"
_SUFFIXES = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
# A row must fit into a block.
_BLOCK = 8 << 20
_LIST = pa.list_(pa.float32())


def has_table_suffix(path: Path) -> bool:
    """Tell whether a name ends like that of a CSV or TSV file, compressed or not."""
    return _suffix(path) in _SUFFIXES


def _suffix(path: Path) -> str:
    name = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return name.suffix.lower()


@dataclass(frozen=True)
class CsvTable:
    """A text table; numbers are read as single precision."""

    path: Path
    dialect: Dialect
    fields: Mapping[str, Field]
    metadata: Mapping[bytes, bytes]
    rows: int | None = None
    untyped: bool = True

    def batches(self, fields: Sequence[Field]) -> Iterator[list[pa.Array]]:
        types = {f.name: pa.string() if f.type == _LIST else f.type for f in fields}
        try:
            for batch in _open(self.path, self.dialect, types):
                yield [self._convert(batch.column(f.name), f) for f in fields]
        except (pa.ArrowException, UnicodeDecodeError) as error:
            numeric = [f.name for f in fields if pa.types.is_floating(f.type)]
            raise explain(self.path, self.dialect, numeric, error) from error

    def cells(self, field: Field) -> Cells:
        literal = replace(field, type=pa.string())
        return keep((array for (array,) in self.batches([literal])), str(self.path))

    def _convert(self, array: pa.Array, field: Field) -> pa.Array:
        return _parse_lists(array, field.name, self.path) if field.type == _LIST else array


def open_csv_table(path: Path) -> CsvTable:
    """Return the table at `path` once its header and its first block make sense."""
    gzipped = GZIP if path.suffix.lower() == ".gz" else ()
    head = check_file(path, _KIND, *gzipped)
    if not gzipped:
        _check_text(path, head)
    dialect = Dialect(_delimiter(path))
    try:
        with readable(path, _KIND):
            first = _first_block(path, dialect)
    except InputError as error:
        cause = error.__cause__
        if isinstance(cause, (pa.ArrowInvalid, UnicodeDecodeError)):
            raise explain(path, dialect, [], cause) from cause
        raise
    _check_header(path, first.schema.names)
    schema = pa.schema([(f.name, _declared(first.column(f.name))) for f in first.schema])
    return CsvTable(path, dialect, fields_of(schema, str(path)), {})


def _open(path: Path, dialect: Dialect, types: Mapping[str, pa.DataType] | None) -> Any:
    """Return a stream of batches: the columns in `types`, or all with types that are guessed."""
    chosen = {"column_types": types, "include_columns": list(types)} if types else {}
    return pacsv.open_csv(
        pa.input_stream(str(path)),
        read_options=pacsv.ReadOptions(block_size=_BLOCK),
        parse_options=pacsv.ParseOptions(
            delimiter=dialect.delimiter, newlines_in_values=True, ignore_empty_lines=True
        ),
        convert_options=pacsv.ConvertOptions(null_values=NULLS, **chosen),
    )


def _first_block(path: Path, dialect: Dialect) -> pa.RecordBatch:
    with _open(path, dialect, None) as reader:
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
    """Return the delimiter that the suffix promises, or the one that the header line has."""
    usual = _SUFFIXES[_suffix(path)]
    header = first_line(path)
    if usual.encode() in header:
        return usual
    return next((d for d in (";", "\t", ",") if d.encode() in header), usual)


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
            # A few words among numbers are an error to report, not a reason to drop the column.
            return pa.float32()
    return pa.string()


def _looks_like_lists(column: pa.Array) -> bool:
    ends = pc.match_substring_regex(column, r"^\s*\[[^\[\]]*\d[^\[\]]*\]\s*$")
    return pc.all(ends).as_py() is True


def _mostly_numbers(column: pa.Array) -> bool:
    sample = [value for value in column.slice(0, 1000).to_pylist() if value]
    return bool(sample) and sum(map(_is_number, sample)) > len(sample) / 2


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
