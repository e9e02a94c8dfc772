"""JSON lines, arrays of objects, and the documents of two labelling tools, as tables in memory."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json as pajson

from kspr.errors import InputError
from kspr.sources.readers._arrow_tables import ArrowTable
from kspr.sources.readers.fiftyone import is_fiftyone, label_columns
from kspr.sources.readers.file_checks import readable, shown
from kspr.sources.readers.label_studio import is_tasks, task_columns, tasks_in
from kspr.sources.readers.plain_text import PlainText, plain_text
from kspr.sources.readers.table import Table

__all__ = ["open_json_table"]

_KIND = "a file of JSON lines"
# A row must fit into a block.
_BLOCK = 8 << 20


def open_json_table(path: Path, encoding: str | None = None) -> Table:
    """Return the table at `path`: one JSON object per line, or one array of objects.

    The tasks of Label Studio and the labels of FiftyOne are told by their content.
    """
    text = plain_text(path, _KIND, encoding)
    with text.data.open("rb") as file:
        first = file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if first not in (b"{", b"["):
        raise InputError(f"{path} is not {_KIND}: it begins with {shown(first.decode('latin-1'))}.")
    labels = _labels(text) if first == b"{" and path.suffix.lower() == ".json" else None
    table = labels or (_array(text) if first == b"[" else _lines(text))
    return ArrowTable(table.replace_schema_metadata(None), str(path))


def _labels(text: PlainText) -> pa.Table | None:
    """Return the labels of FiftyOne; None if the file is of another kind."""
    try:
        # JSON lines are given up at the end of the first one.
        document = json.loads(text.data.read_bytes())
    except (ValueError, RecursionError):
        return None
    if not is_fiftyone(document):
        return None
    with readable(text.path, "a JSON file of FiftyOne"):
        return pa.table(label_columns(document, text.path))


def _lines(text: PlainText) -> pa.Table:
    options = pajson.ReadOptions(block_size=_BLOCK)
    try:
        table = _read(text, options, None)
        # Arrow takes texts that look like dates for dates; a label must stay as it is written.
        dates = [field for field in table.schema if pa.types.is_temporal(field.type)]
        if dates:
            texts = pa.schema([(field.name, pa.string()) for field in dates])
            table = _read(text, options, texts)
    except pa.ArrowInvalid as error:
        raise _wrong_line(text, error) from error
    return table


def _read(text: PlainText, options: Any, schema: pa.Schema | None) -> pa.Table:
    # OSFile, because Arrow would guess a compression from the name.
    with pa.OSFile(str(text.data)) as file:
        parsing = pajson.ParseOptions(explicit_schema=schema, newlines_in_values=False)
        return pajson.read_json(file, options, parsing)


def _array(text: PlainText) -> pa.Table:
    with readable(text.path, "a JSON file"):
        rows = json.loads(text.data.read_bytes())
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise InputError(f"{text.path} must hold an array of JSON objects, one per row.")
        if not rows:
            raise InputError(f"{text.path} has no rows.")
        if is_tasks(rows):
            return pa.table(task_columns(tasks_in(rows, text.path)))
        # from_pylist takes the columns of the first row; a later row may have more.
        names = dict.fromkeys(name for row in rows for name in row)
        return pa.table({name: [row.get(name) for row in rows] for name in names})


def _wrong_line(text: PlainText, error: Exception) -> InputError:
    """Return the sentence for lines that Arrow refused, with the first line that is no object."""
    with text.data.open(encoding="utf-8-sig", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            try:
                found = json.loads(line) if line.strip() else {}
            # Of objects within objects within objects, Python gives up on the depth.
            except (ValueError, RecursionError):
                found = None
            if not isinstance(found, dict):
                return InputError(
                    f"{text.path} is not {_KIND}: line {number} is {shown(line.strip())}. Each "
                    "line must hold one whole object."
                )
    reason = " ".join(str(error).split()).removeprefix("JSON parse error: ")[:120].rstrip(".")
    return InputError(
        f"{text.path} cannot be read as a table ({reason}). A name must have values of one type."
    )
