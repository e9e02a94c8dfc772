"""Files of labels: one per line or row, with the columns that may identify the rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kspr.errors import InputError
from kspr.sources.formats import LABEL_FORMATS, format_of, some_suffixes
from kspr.sources.readers.csv_tables import first_line, open_csv_table, open_lines
from kspr.sources.readers.file_checks import PlainText, check_exists, check_file, listed, plain_text
from kspr.sources.readers.labels import (
    class_names,
    group_names,
    identifiers,
    labels_with_gaps,
    no_label_in,
    whole_labels,
)
from kspr.sources.readers.numpy_files import open_npy
from kspr.sources.readers.roles import (
    ID_NAMES,
    LABEL_NAMES,
    PATH_NAMES,
    TRUTH_NAMES,
    choose_label,
    is_text,
    usual_field,
)
from kspr.sources.readers.table import Field, Table
from kspr.sources.readers.tables import open_table_file

__all__ = ["LabelFile", "id_fields", "open_label_file", "read_label_columns", "read_label_file"]


@dataclass(frozen=True, eq=False)
class LabelFile:
    """A file of labels, one per line or row."""

    path: Path
    label: np.ndarray
    ids: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Columns that may identify the rows, as text, by their names."""
    empty: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Positions whose entry in `label` has no meaning: the file has no label there."""
    where: str = ""
    """Name of the file, or of its column of labels, in errors."""
    groups: np.ndarray | None = None
    """Which rows belong together, as text, where a column of them was asked for and is there."""


def open_label_file(
    path: Path,
    role: Literal["label", "truth"] = "label",
    column: str | None = None,
    count: int | None = None,
    id_column: str | None = None,
    groups: str | None = None,
) -> LabelFile:
    """Return the labels in `path`, and what identifies their rows.

    Without `column`, a table's column of labels is told by its name; for the role ``"truth"``,
    names such as ``truth`` and ``true_label`` go before those of labels. One column needs no name.
    `count` is the number of rows that are expected; it tells whether a first line is a header.
    `id_column` is the name that ids have in the source; it may be any name. `groups` names the
    column that says which rows belong together, if the file has one.
    """
    check_exists(path)
    known = format_of(path)
    if known is None or not known.has_labels:
        check_file(path, "a file of labels", b"PK\x03\x04")
        raise InputError(f"{path} is no file of labels: use {some_suffixes(LABEL_FORMATS)}.")
    if known.name == "npy":
        label, empty = labels_with_gaps(open_npy(path), str(path))
        return LabelFile(path, label, {}, empty, str(path))
    if known.name == "txt" or (known.name == "csv" and column is None):
        text = plain_text(path, "a file of labels")
        if known.name == "txt" or not any(mark in first_line(text) for mark in ",;\t"):
            lines = _lines(text)
            # One column may have no header; a table always has one.
            header = known.name == "csv" and _is_header(lines, count)
            label, empty = labels_with_gaps(lines[header:], str(path), untyped=True)
            return LabelFile(path, label, {}, empty, str(path))
    table = open_table_file(path)
    if table is None:
        raise InputError(f"{path} is not a table of labels.")
    labels = _from_table(table, column, role, path, id_column)
    if groups is None or groups not in table.fields:
        return labels
    (names,) = table.read([table.fields[groups]])
    return replace(labels, groups=group_names(names, f"Column {groups!r} of {path}"))


def read_label_file(
    path: Path, role: Literal["label", "truth"] = "label", column: str | None = None
) -> np.ndarray:
    """Return all labels in `path`, one per row, as `open_label_file` finds them."""
    file = open_label_file(path, role, column)
    if file.empty.size:
        raise InputError(no_label_in(file.empty, file.where))
    return file.label


def read_label_columns(path: Path) -> dict[str, np.ndarray]:
    """Return every column of a CSV file as labels, by its name."""
    table = open_csv_table(path)
    columns = zip(table.fields, table.read(list(table.fields.values())), strict=True)
    return {
        name: whole_labels(column, f"Column {name!r} of {path}", untyped=True)
        for name, column in columns
    }


def _is_header(lines: pa.ChunkedArray, count: int | None) -> bool:
    """Return whether the first line is a header: by the number of rows, else by its text."""
    if count is not None and len(lines) in (count, count + 1):
        return len(lines) == count + 1
    return str(lines[0]).strip().casefold() in (*LABEL_NAMES, *TRUTH_NAMES)


def _from_table(
    table: Table, column: str | None, role: str, path: Path, id_column: str | None
) -> LabelFile:
    names = class_names(table.metadata)
    chosen = usual_field(table.fields, TRUTH_NAMES) if role == "truth" and column is None else None
    chosen = chosen or choose_label(table.fields, column, str(path), names)
    if chosen is None and len(table.fields) == 1:
        chosen = next(iter(table.fields.values()))
    if chosen is None:
        raise InputError(
            f"{path} has no column that is named like labels, only {listed(table.fields)}. Say "
            "which with --label."
        )
    fields = [chosen, *(f for f in id_fields(table, id_column) if f.name != chosen.name)]
    columns = dict(zip((f.name for f in fields), table.read(fields), strict=True))
    labels = columns.pop(chosen.name)
    what = f"Label column {chosen.name!r} of {path}"
    label, empty = labels_with_gaps(labels, what, names.get(chosen.name), table.untyped)
    # A column with gaps identifies nothing.
    ids = {name: identifiers(c, name) for name, c in columns.items() if not c.null_count}
    return LabelFile(path, label, ids, empty, what)


def id_fields(table: Table, id_column: str | None) -> list[Field]:
    """Return the columns that may identify rows, the likeliest first."""
    order = (*(() if id_column is None else (id_column.casefold(),)), *ID_NAMES, *PATH_NAMES)
    fields = [f for f in table.fields.values() if f.name.casefold() in order]
    fields = [f for f in fields if is_text(f.type) or pa.types.is_integer(f.type) or table.untyped]
    return sorted(fields, key=lambda f: order.index(f.name.casefold()))


def _lines(text: PlainText) -> pa.ChunkedArray:
    """Return the lines of a text file; empty ones at its end are none."""
    table = open_lines(text)
    (lines,) = table.read(list(table.fields.values()))
    filled = pc.indices_nonzero(pc.binary_length(lines))
    return lines[: filled[-1].as_py() + 1] if len(filled) else lines[:1]
