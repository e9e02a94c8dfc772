"""Joining labels in a file of their own to the rows that they are about: by id, else by order."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kspr.core.coded import changed
from kspr.errors import InputError
from kspr.sources.options import ReadOptions
from kspr.sources.readers.file_checks import listed
from kspr.sources.readers.image_folder import IMAGE_SUFFIXES
from kspr.sources.readers.label_files import LabelFile, open_label_file
from kspr.sources.records import Records

__all__ = ["JoinedLabels", "join_label_file", "places_of", "with_label_file"]


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


def places_of(ids: Any, among: Any) -> np.ndarray:
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
    found = join_label_file(file, records.row_id, records.named, records.source)
    labelled = changed(records, label=found.label, notes=(*records.notes, *found.notes))
    if found.groups is not None:
        labelled = changed(labelled, groups=found.groups)
    if not found.missing.size:
        return changed(labelled, no_labels=None, unlabelled=None)
    few = listed(records.row_id[found.missing].tolist(), 5)
    reason = (
        f"{file.path} has no label for {_rows(found.missing.size)} of {records.source}: {few}. "
        "Add them, or leave these rows out with --missing drop."
    )
    return changed(labelled, no_labels=reason, unlabelled=found.missing)


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
    notes = (f"{_rows(unused)} of {file.path} are about no row of {source}.",) if unused else ()
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
        raise InputError(
            f"Column {column!r} of {file.path} has {_some(twice.tolist(), 'id')} more than once. "
            "Keep one line for each."
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


def _rows(count: int) -> str:
    return f"{count:,} row{'s' * (count != 1)}"


def _some(names: Sequence[str], what: str) -> str:
    return f"the {what}{'s' * (len(names) > 1)} {listed(names, 5)}"
