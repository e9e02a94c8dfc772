"""Files of labels, joined to the rows that they are about: by id, else by order.

One label for each row, or the labels of several annotators: a column for each of them, or one line
per label.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kspr.errors import InputError
from kspr.sources.formats import LABEL_FORMATS, format_of, some_suffixes
from kspr.sources.options import ReadOptions
from kspr.sources.readers.csv_tables import first_line, open_lines
from kspr.sources.readers.file_checks import (
    PlainText,
    check_exists,
    check_file,
    listed,
    no_such,
    plain_text,
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
from kspr.sources.readers.values import (
    class_names,
    group_names,
    identifiers,
    labels_with_gaps,
    no_label_in,
)
from kspr.sources.records import IMAGE_SUFFIXES, SOUND_SUFFIXES, Records


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


@dataclass(frozen=True, eq=False)
class JoinedLabels:
    """The labels of a file, in the order of the rows that they are about."""

    label: np.ndarray
    """One entry per row; without meaning for rows in `missing`."""
    missing: np.ndarray
    """Positions of the rows that the file has no label for."""
    notes: tuple[str, ...]
    """Sentences for the user: rows joined by their order, lines of the file that were not used."""
    groups: np.ndarray | None = None
    """Which rows belong together, where the file says so; without meaning as `label` is."""


def places_of(ids: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Return where each of `ids` is in `among`; -1 where it is not there.

    >>> places_of(np.array(["b", "x"]), np.array(["a", "b"])).tolist()
    [1, -1]
    """
    place = {name: position for position, name in enumerate(among.tolist())}
    return np.array([place.get(name, -1) for name in ids.tolist()], dtype=np.int64)


def with_label_file(records: Records, options: ReadOptions) -> Records:
    """Return `records` with the labels of the file ``options.labels``."""
    assert options.labels is not None  # noqa: S101 - callers ask before
    groups = options.groups if records.groups is None else None
    about = (records.row_id, records.named, records.source)
    joined = join_label_file(options.labels, "label", *about, options.id, options.label, groups)
    labelled = replace(records, label=joined.label, notes=(*records.notes, *joined.notes))
    if joined.groups is not None:
        labelled = replace(labelled, groups=joined.groups)
    if not joined.missing.size:
        return replace(labelled, no_labels=None, unlabelled=None)
    few = listed(records.row_id[joined.missing].tolist(), 5)
    reason = (
        f"{options.labels} has no label for {_count(joined.missing.size)} of {records.source}: "
        f"{few}. Add them, or leave these rows out with --missing drop."
    )
    return replace(labelled, no_labels=reason, unlabelled=joined.missing)


def join_label_file(
    path: Path,
    role: Literal["label", "truth"],
    row_id: np.ndarray,
    named: bool,
    source: Path | str,
    id_column: str | None = None,
    column: str | None = None,
    groups: str | None = None,
) -> JoinedLabels:
    """Return the labels of a file in the order of the rows of `source`, joined by their ids.

    Rows whose ids are mere numbers (not `named`) are joined by them if the file has such a column.
    Where one of the two has no ids, the order of the rows counts, and a note says so. The other
    arguments are as for `open_label_file`.
    """
    file = open_label_file(path, role, column, len(row_id), id_column, groups)
    known = _known(file, row_id, named)
    if not known and named:
        # FiftyOne, among others, names images without the suffixes of their files.
        bare = _without_suffixes(row_id)
        known = _known(file, bare, named)
        # A count of the lines is by chance like 1.png, 2.png, ..., unless it knows all of them.
        known = {k: mask for k, mask in known.items() if mask.all() or not _is_counter(file.ids[k])}
        row_id = bare if known else row_id
    if not known:
        return _by_order(file, row_id, named, source)
    # Of several columns that could be ids, the one that knows most of the rows.
    name = max(known, key=lambda column: int(known[column].sum()))
    distinct, count = np.unique(file.ids[name][known[name]], return_counts=True)
    if (count > 1).any():
        twice = listed(distinct[count > 1].tolist(), 5)
        raise InputError(
            f"Column {name!r} of {path} has {twice} more than once. Keep one line for each id."
        )
    place = places_of(row_id, file.ids[name])
    missing = np.flatnonzero((place < 0) | np.isin(place, file.empty))
    notes = _unused(int((~known[name]).sum()), "row", path, source)
    of_rows = None if file.groups is None else file.groups[place]
    return JoinedLabels(file.label[place], missing, notes, of_rows)


def _unused(count: int, what: str, path: Path, source: Path | str) -> tuple[str, ...]:
    return (f"{_count(count, what)} of {path} are about no row of {source}.",) if count else ()


def _known(file: LabelFile, row_id: np.ndarray, named: bool) -> dict[str, np.ndarray]:
    """Return which lines of the file are about the rows, by the name of each column of ids."""
    known = {name: places_of(ids, row_id) >= 0 for name, ids in file.ids.items()}
    # Numbers of rows are ids only if all of them are: others count from 1, or mean something else.
    return {name: mask for name, mask in known.items() if (mask.any() and (named or mask.all()))}


def _without_suffixes(row_id: np.ndarray) -> np.ndarray:
    """Return the names of image files without their suffixes, if they stay distinct."""
    names, known = [str(name) for name in row_id.tolist()], IMAGE_SUFFIXES | SOUND_SUFFIXES
    bare = [
        name.rpartition(".")[0] if Path(name).suffix.lower() in known else name for name in names
    ]
    return np.array(bare if len(set(bare)) == len(bare) else names, dtype=object)


def _by_order(file: LabelFile, row_id: np.ndarray, named: bool, source: Path | str) -> JoinedLabels:
    """Return the labels in their order; raise if ids of the file show that it is another one."""
    for column, ids in file.ids.items():
        if _is_counter(ids):
            continue
        if named:
            raise InputError(
                f"Column {column!r} of {file.path} has none of the ids of {source}, such as "
                f"{str(row_id[0])!r}. Correct the ids, or leave the column out to join by order."
            )
        whole = ids.dtype.kind == "U" and np.char.isdecimal(ids).all()
        if whole and (np.diff(ids.astype(np.float64)) < 0).any():
            raise InputError(
                f"Column {column!r} of {file.path} is not in ascending order, and {source} has no "
                "ids to join it by. Sort the file in the order of the source, or name the ids of "
                "the source with --id."
            )
    if len(file.label) != len(row_id):
        raise InputError(
            f"{source} has {len(row_id)} rows but {file.path} has {len(file.label)} labels."
        )
    # Ids of both sides are left only where those of the file are mere counts of its lines.
    who = "neither has ids" if not named else f"{file.path} has no ids"
    who = f"{source} has no ids" if file.ids and not named else who
    note = f"The labels of {file.path} were given to the rows of {source} in their order: {who}."
    return JoinedLabels(file.label, file.empty, (note,), file.groups)


def _is_counter(ids: np.ndarray) -> bool:
    """Return whether ids only count the lines, from 0 or from 1."""
    return any(
        np.array_equal(ids, np.arange(first, first + len(ids)).astype(str)) for first in (0, 1)
    )


def _count(count: int, what: str = "row") -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


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
        table = open_table_file(options.labels)
        raise no_such(str(options.annotators), table.fields if table else (), str(options.labels))
    return _long(table, options.labels, records, options)


def _wide(records: Records, options: ReadOptions) -> VoteColumns:
    table, chosen = open_table_file(records.source, options), records.columns.get("annotators")
    if table is None or chosen is None:
        raise InputError(
            f"{records.source} has no columns. Put the labels into a table with one line per "
            "label, and name it with --labels and its column of people with --annotators."
        )
    columns = table.read([table.fields[name] for name in chosen])
    names, what = class_names(table.metadata), f"Columns {listed(chosen)} of {records.source}"
    if table.untyped:
        # All cells together: numbers in one column are texts if another column has texts.
        columns = [pa.chunked_array([chunk for column in columns for chunk in column.chunks])]
    parts = []
    for number, column in enumerate(columns):
        known = None if table.untyped else names.get(chosen[number])
        label, empty = labels_with_gaps(column, what, known, table.untyped)
        given = np.delete(np.arange(len(label)), empty)
        person, row = np.divmod(given, len(records))
        parts.append((row, np.array(chosen)[number + person], label[given]))
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
    labels, who, *keys = table.read([label_field, people, *ids])
    names_of = (identifiers(key, field.name) for key, field in zip(keys, ids, strict=True))
    places = [places_of(named, records.row_id) for named in names_of]
    place = max(places, key=lambda known: int((known >= 0).sum()))
    what = f"Label column {label_field.name!r} of {path}"
    label, empty = labels_with_gaps(labels, what, names.get(label_field.name), table.untyped)
    known = place >= 0
    known[empty] = False
    if not known.any():
        raise InputError(f"{path} has no label for any row of {records.source}.")
    notes = _unused(int((place < 0).sum()), "line", path, records.source)
    annotator = identifiers(who, people.name)
    return VoteColumns(place[known], annotator[known], label[known], notes)
