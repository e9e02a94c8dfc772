"""Labels of several annotators in files: a column for each of them, or one line per label."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kspr.errors import InputError
from kspr.sources.joining import places_of
from kspr.sources.options import ReadOptions
from kspr.sources.readers.file_checks import listed, no_such
from kspr.sources.readers.label_files import id_fields
from kspr.sources.readers.labels import class_names, identifiers, labels_with_gaps
from kspr.sources.readers.roles import choose_label
from kspr.sources.readers.table import Field, Table
from kspr.sources.readers.table_files import open_table_file
from kspr.sources.records import Records

__all__ = ["VoteColumns", "long_table", "read_vote_columns"]


@dataclass(frozen=True, eq=False)
class VoteColumns:
    """Labels of several annotators, one entry per label."""

    row: np.ndarray
    """Row numbers in the source."""
    annotator: np.ndarray
    label: np.ndarray
    notes: tuple[str, ...] = ()

    def digest(self, row_id: np.ndarray) -> str:
        """Return a digest of all labels with the ids of their rows, whatever their order."""
        lines = zip(
            row_id[self.row].tolist(), self.annotator.tolist(), self.label.tolist(), strict=True
        )
        return hashlib.sha256("\n".join(sorted(map(repr, lines))).encode()).hexdigest()


class _Column(NamedTuple):
    field: Field
    values: pa.ChunkedArray


def long_table(options: ReadOptions) -> Table | None:
    """Return the file of labels if it says in a column who gave each of them; else None."""
    if options.annotators is None or options.labels is None:
        return None
    table = open_table_file(options.labels)
    return table if table is not None and options.annotators in table.fields else None


def read_vote_columns(records: Records, options: ReadOptions) -> VoteColumns:
    """Return the labels that the annotators gave to the rows of `records`."""
    if options.labels is None:
        return _wide(records, options)
    table = long_table(options)
    if table is None:
        found = open_table_file(options.labels)
        raise no_such(str(options.annotators), found.fields if found else (), str(options.labels))
    return _long(table, options.labels, records, options)


def _wide(records: Records, options: ReadOptions) -> VoteColumns:
    table, chosen = open_table_file(records.source, options), records.columns.get("annotators")
    if table is None or chosen is None:
        raise InputError(
            f"{records.source} has no columns. Put the labels into a table with one line per "
            "label, and name it with --labels and its column of people with --annotators."
        )
    fields = [table.fields[name] for name in chosen]
    columns, names = _read(table, fields), class_names(table.metadata)
    if table.untyped:
        # All cells together: numbers in one column are texts if another column has texts.
        chunks = [chunk for column in columns for chunk in column.values.chunks]
        what = f"Columns {listed(f.name for f in fields)} of {records.source}"
        label, empty = labels_with_gaps(pa.chunked_array(chunks), what, untyped=True)
        given = np.delete(np.arange(len(label)), empty)
        person, row = np.divmod(given, len(records))
        return VoteColumns(row, np.array(chosen)[person], label[given])
    parts = []
    for field, values in columns:
        what = f"Column {field.name!r} of {records.source}"
        label, empty = labels_with_gaps(values, what, names.get(field.name))
        row = np.delete(np.arange(len(label)), empty)
        parts.append((row, np.full(len(row), field.name), label[row]))
    row, who, label = (np.concatenate(part) for part in zip(*parts, strict=True))
    return VoteColumns(row, who, label)


def _long(table: Table, path: Path, records: Records, options: ReadOptions) -> VoteColumns:
    names = class_names(table.metadata)
    label_field = choose_label(table.fields, options.label, str(path), names)
    if label_field is None:
        raise InputError(f"{path} has no column that is named like labels. Say which with --label.")
    ids = id_fields(table, options.id)
    if not ids:
        raise InputError(
            f"{path} has no column that says which row a label is of. Name it 'id' or 'row'."
        )
    people = table.fields[str(options.annotators)]
    label_column, who, *keys = _read(table, [label_field, people, *ids])
    place = max(
        (places_of(identifiers(key.values, key.field.name), records.row_id) for key in keys),
        key=lambda places: int((places >= 0).sum()),
    )
    what = f"Label column {label_field.name!r} of {path}"
    label, empty = labels_with_gaps(
        label_column.values, what, names.get(label_field.name), table.untyped
    )
    known = place >= 0
    known[empty] = False
    if not known.any():
        raise InputError(f"{path} has no label for any row of {records.source}.")
    unused = int((place < 0).sum())
    lines = f"{unused:,} line{'s' * (unused != 1)}"
    notes = (f"{lines} of {path} are about no row of {records.source}.",) if unused else ()
    annotator = identifiers(who.values, people.name).array()
    return VoteColumns(place[known], annotator[known], label[known], notes)


def _read(table: Table, fields: list[Field]) -> list[_Column]:
    """Return columns whole; those of a CSV file as texts."""
    if table.untyped:
        fields = [replace(field, type=pa.string()) for field in fields]
    blocks = list(table.batches(fields))
    return [
        _Column(field, pa.chunked_array([arrays[k] for arrays in blocks], field.type))
        for k, field in enumerate(fields)
    ]
