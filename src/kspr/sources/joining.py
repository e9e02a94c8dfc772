"""Labels in a file, joined to the rows that they are about: by id, else by order.

One label for each row, or the labels of several annotators: a column for each of them, or one line
per label.
"""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from kspr.errors import InputError
from kspr.sources.options import ReadOptions
from kspr.sources.readers.file_checks import listed, no_such
from kspr.sources.readers.items import IMAGE_SUFFIXES
from kspr.sources.readers.label_files import LabelFile, id_fields, open_label_file
from kspr.sources.readers.labels import class_names, identifiers, labels_with_gaps
from kspr.sources.readers.roles import choose_label
from kspr.sources.readers.table import Table
from kspr.sources.readers.tables import open_table_file
from kspr.sources.records import Records

__all__ = [
    "VoteColumns",
    "join_label_file",
    "long_table",
    "places_of",
    "read_vote_columns",
    "with_label_file",
]


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
    file = open_label_file(options.labels, "label", options.label, len(records), options.id, groups)
    joined = join_label_file(file, records.row_id, records.named, records.source)
    labelled = replace(records, label=joined.label, notes=(*records.notes, *joined.notes))
    if joined.groups is not None:
        labelled = replace(labelled, groups=joined.groups)
    if not joined.missing.size:
        return replace(labelled, no_labels=None, unlabelled=None)
    few = listed(records.row_id[joined.missing].tolist(), 5)
    reason = (
        f"{file.path} has no label for {_count(joined.missing.size)} of {records.source}: {few}. "
        "Add them, or leave these rows out with --missing drop."
    )
    return replace(labelled, no_labels=reason, unlabelled=joined.missing)


def join_label_file(
    file: LabelFile, row_id: np.ndarray, named: bool, source: Path | str
) -> JoinedLabels:
    """Return the labels of `file` in the order of the rows of `source`, joined by their ids.

    Rows whose ids are mere numbers (not `named`) are joined by them if the file has such a column.
    Where one of the two has no ids, the order of the rows counts, and a note says so.
    """
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
    column = max(known, key=lambda name: int(known[name].sum()))
    _check_once(file, column, known[column])
    place = places_of(row_id, file.ids[column])
    unused = int((~known[column]).sum())
    notes = (f"{_count(unused)} of {file.path} are about no row of {source}.",) if unused else ()
    missing = (place < 0) | np.isin(place, file.empty)
    groups = None if file.groups is None else file.groups[place]
    return JoinedLabels(file.label[place], np.flatnonzero(missing), notes, groups)


def _known(file: LabelFile, row_id: np.ndarray, named: bool) -> dict[str, np.ndarray]:
    """Return which lines of the file are about the rows, by the name of each column of ids."""
    known = {name: places_of(ids, row_id) >= 0 for name, ids in file.ids.items()}
    # Numbers of rows are ids only if all of them are: others count from 1, or mean something else.
    return {name: mask for name, mask in known.items() if (mask.any() and (named or mask.all()))}


def _without_suffixes(row_id: np.ndarray) -> np.ndarray:
    """Return the names of image files without their suffixes, if they stay distinct."""
    names = [str(name) for name in row_id.tolist()]
    bare = [
        name.rpartition(".")[0] if Path(name).suffix.lower() in IMAGE_SUFFIXES else name
        for name in names
    ]
    return np.array(bare if len(set(bare)) == len(bare) else names, dtype=object)


def _check_once(file: LabelFile, column: str, known: np.ndarray) -> None:
    """Raise if the file has two labels for one row."""
    distinct, count = np.unique(file.ids[column][known], return_counts=True)
    twice = distinct[count > 1]
    if twice.size:
        ids = f"the id{'s' * (len(twice) > 1)} {listed(twice.tolist(), 5)}"
        raise InputError(
            f"Column {column!r} of {file.path} has {ids} more than once. Keep one line for each."
        )


def _by_order(file: LabelFile, row_id: np.ndarray, named: bool, source: Path | str) -> JoinedLabels:
    _check_in_order(file, row_id, named, source)
    if len(file.label) != len(row_id):
        raise InputError(
            f"{source} has {len(row_id)} rows but {file.path} has {len(file.label)} labels."
        )
    # Ids of both sides are left only where those of the file are mere counts of its lines.
    who = "neither has ids" if not named else f"{file.path} has no ids"
    who = f"{source} has no ids" if file.ids and not named else who
    note = f"The labels of {file.path} were given to the rows of {source} in their order: {who}."
    return JoinedLabels(file.label, file.empty, (note,), file.groups)


def _check_in_order(file: LabelFile, row_id: np.ndarray, named: bool, source: Path | str) -> None:
    """Raise if the ids of the file show that the order of its rows is another one."""
    for column, ids in file.ids.items():
        if _is_counter(ids):
            continue
        if named:
            raise InputError(
                f"Column {column!r} of {file.path} has none of the ids of {source}, such as "
                f"{str(row_id[0])!r}. Correct the ids, or leave the column out to join by order."
            )
        if (
            ids.dtype.kind == "U"
            and np.char.isdecimal(ids).all()
            and (np.diff(ids.astype(np.float64)) < 0).any()
        ):
            raise InputError(
                f"Column {column!r} of {file.path} is not in ascending order, and {source} has no "
                "ids to join it by. Sort the file in the order of the source, or name the ids of "
                "the source with --id."
            )


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
    fields = [table.fields[name] for name in chosen]
    columns, names = table.read(fields), class_names(table.metadata)
    if table.untyped:
        # All cells together: numbers in one column are texts if another column has texts.
        chunks = [chunk for column in columns for chunk in column.chunks]
        what = f"Columns {listed(f.name for f in fields)} of {records.source}"
        label, empty = labels_with_gaps(pa.chunked_array(chunks), what, untyped=True)
        given = np.delete(np.arange(len(label)), empty)
        person, row = np.divmod(given, len(records))
        return VoteColumns(row, np.array(chosen)[person], label[given])
    parts = []
    for field, values in zip(fields, columns, strict=True):
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
    labels, who, *keys = table.read([label_field, people, *ids])
    place = max(
        (
            places_of(identifiers(key, field.name), records.row_id)
            for key, field in zip(keys, ids, strict=True)
        ),
        key=lambda places: int((places >= 0).sum()),
    )
    what = f"Label column {label_field.name!r} of {path}"
    label, empty = labels_with_gaps(labels, what, names.get(label_field.name), table.untyped)
    known = place >= 0
    known[empty] = False
    if not known.any():
        raise InputError(f"{path} has no label for any row of {records.source}.")
    unused = int((place < 0).sum())
    notes = (
        (f"{_count(unused, 'line')} of {path} are about no row of {records.source}.",)
        if unused
        else ()
    )
    annotator = identifiers(who, people.name)
    return VoteColumns(place[known], annotator[known], label[known], notes)
