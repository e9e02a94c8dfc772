"""Writing tables: CSV, parquet, Arrow, JSON lines and data sets of Hugging Face.

Block by block, whole or not at all.
"""

import json
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kspr._files import staged, write_json
from kspr.errors import InputError
from kspr.sources.formats import HUGGING_FACE_FILES, Format, delimiter_of, written_format
from kspr.sources.readers.values import class_names

# 64-bit offsets: the texts of one block may exceed the 2 GB that pa.string() can address.
_TEXT = pa.large_string()
_Write = Callable[[pa.RecordBatch], Any]


def write_table(path: Path, table: pa.Table) -> None:
    """Write a table in the format that the suffix of `path` names."""
    known = written_format(path, files_only=True)
    write_batches(path, known, table.schema, table.to_batches())


def write_batches(
    path: Path,
    to: Format,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    delimiter: str | None = None,
) -> None:
    """Write batches of one schema to `path`, in the format `to`.

    `delimiter` separates the cells of a CSV file; None for the one that its suffix names.

    Values, names and order of columns are kept in every format; types and metadata in parquet and
    Arrow, which have them; and in data sets of Hugging Face, but for categories, which become
    their values. Raise `InputError` where the format cannot hold a column.
    """
    with staged(path) as staging, ExitStack() as stack:
        # The staged file has a name of its own, in which a suffix such as .tsv.gz is torn apart.
        write = _WRITERS[to.name](staging, schema, stack, delimiter or delimiter_of(path))
        for batch in batches:
            # The batches of several files agree in types, but not always in metadata.
            write(batch.cast(schema))


def _to_parquet(path: Path, schema: pa.Schema, stack: ExitStack, _: str) -> _Write:
    return stack.enter_context(pq.ParquetWriter(path, schema)).write_batch  # type: ignore[no-any-return]


def _to_arrow(path: Path, schema: pa.Schema, stack: ExitStack, _: str) -> _Write:
    sink = stack.enter_context(pa.OSFile(str(path), "wb"))
    # An Arrow file has one dictionary a column, for all of its batches.
    encoded = any(pa.types.is_dictionary(field.type) for field in schema)
    options = pa.ipc.IpcWriteOptions(unify_dictionaries=encoded)
    writer = stack.enter_context(pa.ipc.new_file(sink, schema, options=options))
    if not encoded:
        return writer.write_batch  # type: ignore[no-any-return]
    # Dictionaries are unified over a whole table, so the batches are held until the end. The stack
    # unwinds in reverse: this is written before the writer closes, and that before the sink.
    batches: list[pa.RecordBatch] = []
    stack.callback(lambda: writer.write_table(pa.Table.from_batches(batches, schema)))
    return batches.append


def _to_json_lines(path: Path, schema: pa.Schema, stack: ExitStack, _: str) -> _Write:
    _refuse(schema, _holds_bytes, "bytes", "JSON")
    lines = stack.enter_context(path.open("w", encoding="utf-8", newline="\n"))

    def write(batch: pa.RecordBatch) -> None:
        # JSON has no dates or decimals: `default=str` writes them as text.
        lines.writelines(
            json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in batch.to_pylist()
        )

    return write


def _to_csv(path: Path, schema: pa.Schema, stack: ExitStack, delimiter: str) -> _Write:
    """Open a CSV file; cells are quoted only where that is needed to read them back.

    A missing value is nothing at all between two commas; an empty text is a pair of quotes.
    """
    _refuse(schema, pa.types.is_nested, "lists or structs", "A CSV file")
    _refuse(schema, _holds_bytes, "bytes", "A CSV file")
    _refuse(schema, _has_no_text, "values", "A CSV file")
    # Arrow's own writer puts every text into quotes, so that no line would come back as it was.
    file = stack.enter_context(pa.output_stream(str(path)))
    header = [_quoted(pa.array([name], _TEXT), delimiter)[0].as_py() for name in schema.names]
    file.write((delimiter.join(header) + "\n").encode())

    def write(batch: pa.RecordBatch) -> None:
        cells = [_quoted(_texts(column), delimiter) for column in batch.columns]
        nothing = '""' if len(cells) == 1 else ""  # an empty line would be no row
        # Only after quoting, which would take the filled cells for empty texts.
        cells = [pc.fill_null(column, nothing) for column in cells]
        lines = _joined(*cells, by=delimiter)
        file.write("".join(f"{line}\n" for line in lines.to_pylist()).encode())

    return write


def _to_hugging_face(path: Path, schema: pa.Schema, stack: ExitStack, _: str) -> _Write:
    """Open a folder as `save_to_disk` of the package `datasets` leaves it.

    The package reads class names and kinds of columns from the schema's metadata.
    """
    path.mkdir()
    name = "data-00000-of-00001.arrow"
    sink = stack.enter_context(pa.OSFile(str(path / name), "wb"))
    plain = _plain_types(schema)
    writer = stack.enter_context(pa.ipc.new_stream(sink, plain))
    state = {
        **dict.fromkeys(("_fingerprint", "_format_columns", "_format_type", "_split")),
        **{"_format_kwargs": {}, "_output_all_columns": False},
        "_data_files": [{"filename": name}],
    }
    write_json(path / "dataset_info.json", {})
    write_json(path / HUGGING_FACE_FILES[0], state)
    return lambda batch: writer.write_batch(batch.cast(plain))


def _plain_types(schema: pa.Schema) -> pa.Schema:
    """Return a schema in types that `datasets` knows: no categories, class numbers in 64 bits."""
    named = class_names(schema.metadata or {})
    fields = []
    for field in schema:
        kind = field.type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        elif field.name in named and pa.types.is_integer(kind):
            kind = pa.int64()
        # It takes a column that may hold no nulls for one of another type.
        fields.append(pa.field(field.name, kind))
    return pa.schema(fields, schema.metadata)


_WRITERS: dict[str, Callable[[Path, pa.Schema, ExitStack, str], _Write]] = {
    "csv": _to_csv,
    "parquet": _to_parquet,
    "arrow": _to_arrow,
    "jsonl": _to_json_lines,
    "huggingface": _to_hugging_face,
}


def _quoted(texts: pa.Array, delimiter: str) -> pa.Array:
    # `^$`: without quotes, an empty text would be read back as a missing value.
    special = pc.match_substring_regex(texts, f'^$|["\r\n{delimiter}]')
    if not pc.any(special).as_py():
        return texts
    doubled = pc.replace_substring(texts, '"', '""')
    return pc.if_else(special, _joined('"', doubled, '"', by=""), texts)


def _joined(*parts: Any, by: str) -> Any:
    words = [pa.scalar(part, _TEXT) if isinstance(part, str) else part for part in parts]
    # Gives null if any part is null, so that a missing value stays missing.
    return pc.binary_join_element_wise(*words, pa.scalar(by, _TEXT))


def _texts(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _texts(column.dictionary_decode())
    # Arrow cannot write half precision as text; single precision holds it exactly.
    if pa.types.is_float16(kind):
        column = column.cast(pa.float32())
    return column.cast(_TEXT)


def _refuse(
    schema: pa.Schema, cannot: Callable[[pa.DataType], bool], content: str, what: str
) -> None:
    for field in schema:
        if cannot(field.type):
            raise InputError(
                f"{what} cannot hold the {content} of column {field.name!r}. Choose a name that "
                "ends in .parquet or .arrow."
            )


def _has_no_text(kind: pa.DataType) -> bool:
    """Return whether Arrow has no way to write a type as text; durations, for example."""
    try:
        _texts(pa.array([], kind))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return True
    return False


def _holds_bytes(kind: pa.DataType) -> bool:
    """Return whether a type holds bytes, or is made of types that do."""
    if pa.types.is_dictionary(kind):
        return _holds_bytes(kind.value_type)
    if pa.types.is_nested(kind):
        return any(_holds_bytes(kind.field(k).type) for k in range(kind.num_fields))
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
    )
