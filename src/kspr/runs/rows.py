"""The rows of a run: their file, and where they are in the source as it is now.

They are known again by their ids, else by their content.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from kspr._arrow import as_array, read_parquet
from kspr.core.labels import encode_labels, places_in, same_label
from kspr.errors import InputError, UnreadableItemError
from kspr.features.loading import Loaded
from kspr.sources.joining import places_of
from kspr.sources.readers.file_checks import listed
from kspr.sources.readers.values import texts_of
from kspr.sources.records import (
    Items,
    Records,
    all_distinct,
    content_digests,
    number_texts,
    row_digests,
)

ROWS = "rows.parquet"
"""File of the rows: their numbers, ids and digests."""
_BLOCK = 1 << 18
"""Rows of a row group."""


@dataclass(frozen=True, eq=False)
class RunRows:
    """The rows that a run was made from; entry i belongs to entry i of its selection."""

    row: np.ndarray
    """Row numbers in the source as it was, in ascending order."""
    digest: np.ndarray
    """64 bits of each row's content: its features, else the stored bytes of its item."""
    ids: np.ndarray | None = None
    """The source's own ids; None where its rows have numbers only."""

    def __len__(self) -> int:
        return len(self.row)

    @property
    def named(self) -> bool:
        """Whether the source itself holds the ids; otherwise they are row numbers."""
        return self.ids is not None

    @cached_property
    def row_id(self) -> np.ndarray:
        """What identifies each row, as text: its id, else its number."""
        return number_texts(self.row) if self.ids is None else self.ids


def rows_of(loaded: Loaded) -> RunRows:
    """Return the rows of a source that was opened, as a run keeps them."""
    ids = loaded.row_id if loaded.records.named else None
    return RunRows(loaded.row, loaded.digest, ids)


def row_tables(rows: RunRows) -> Iterator[pa.Table]:
    """Yield the rows a row group at a time: as Arrow has them, their ids take much memory."""
    for start in range(0, len(rows), _BLOCK):
        part = slice(start, start + _BLOCK)
        ids = number_texts(rows.row[part]) if rows.ids is None else rows.ids[part]
        texts = pa.array(ids).cast(pa.large_string())
        yield pa.table({"row": rows.row[part], "row_id": texts, "digest": rows.digest[part]})


def read_rows(path: Path, named: Any, n: int) -> RunRows:
    """Return the `n` rows that a file holds; raise `ValueError` if it holds others."""
    wrong = ValueError(f"{path.name} does not fit the selection of {n} rows")
    if not isinstance(named, bool):
        raise wrong
    table = read_parquet(path, ["row", "row_id", "digest"])
    row, digest, ids = as_array(table["row"]), as_array(table["digest"]), table["row_id"]
    sound = (
        len(table) == n
        and not any(column.null_count for column in table.columns)
        # Where rows were in the source decides nothing any more, but people read it.
        and row.dtype.kind == "i"
        and bool((np.diff(row, prepend=-1) > 0).all())
        and digest.dtype == np.uint64
        and ids.type in (pa.string(), pa.large_string())
    )
    if not sound:
        raise wrong
    return RunRows(row, digest, texts_of(ids) if named else None)


@dataclass(frozen=True, eq=False)
class Joined:
    """Where the rows of a run are in its source as it is now."""

    position: np.ndarray
    """Positions in the run of the rows that are in the source as they were, ascending."""
    place: np.ndarray
    """The row number that each of them has in the source now."""
    gone: np.ndarray
    """Positions of rows that are not in the source any more."""
    changed: np.ndarray
    """Positions of rows that have another label or another content there now."""
    n_other: int
    """Rows of the source that the run does not know."""

    def is_all_of(self, n_rows: int) -> bool:
        """Return whether these are all rows of a source of `n_rows`, in its order."""
        return len(self.place) == n_rows and bool((self.place[1:] > self.place[:-1]).all())

    @property
    def whole(self) -> bool:
        """Whether every row of the run is there as it was."""
        return not (len(self.gone) or len(self.changed))

    def places(self) -> np.ndarray:
        """Return the row number in the source of each row of the run; -1 where it has none."""
        place = np.full(len(self.position) + len(self.gone) + len(self.changed), -1)
        place[self.position] = self.place
        return place

    def notes(self, rows: RunRows, source: str, unreadable: int = 0) -> tuple[str, ...]:
        """Say what is different now: counts, and a few names. Empty if nothing is."""
        said = []
        for positions, what in ((self.gone, "gone from"), (self.changed, "changed in")):
            if len(positions):
                few, n = listed(rows.row_id[positions].tolist(), 5), len(positions)
                how = what if rows.named else "gone from, or changed in,"
                verb = f"row{'s' * (n > 1)} of the run {'are' if n > 1 else 'is'}"
                said.append(f"{n:,} {verb} {how} {source}: {few}.")
        # Items that could not be read are in no run.
        if self.n_other > unreadable:
            rest = f"{self.n_other:,} row{'s' * (self.n_other > 1)}"
            said.append(f"{source} has {rest} that the run does not know.")
        return tuple(said)


def join_rows(before: RunRows, label: np.ndarray, now: Records) -> Joined:
    """Find the rows of a run, which had the labels `label`, in its source as it is `now`.

    By id where both have ids, and no id twice; else by content and label, which rows that are
    copies of each other share: where their number has changed, `InputError` is raised.
    """
    by_id = before.named and now.named
    in_order = by_id and np.array_equal(before.row_id, now.row_id)
    by_id = by_id and all_distinct(before.row_id) and (in_order or all_distinct(now.row_id))
    # Image files are not all read where ids tell them: `JoinedItems` checks each that is shown.
    read = not by_id or now.features is not None or now.items is None or now.items.kind == "text"
    digest = row_digests(now) if read else before.digest
    same = (in_order or not by_id) and np.array_equal(digest, before.digest)
    labelled = now.label is not None and now.unlabelled is None and len(now.label) == len(label)
    if same and labelled and same_label(label, now.label).all():
        # As it was, row by row, the usual case: nothing has to be looked for.
        every, none = np.arange(len(before)), np.empty(0, dtype=np.int64)
        return Joined(position=every, place=every, gone=none, changed=none, n_other=0)
    if by_id:
        return _by_id(before, label, now, digest if read else None)
    return _by_content(before, label, now, digest)


def _by_id(before: RunRows, label: np.ndarray, now: Records, digest: np.ndarray | None) -> Joined:
    """Find rows by their ids; those are as they were whose label and `digest`, if any, agree."""
    place = places_of(before.row_id, now.row_id)
    kept, labelled = np.flatnonzero(place >= 0), now.labelled()
    same = np.zeros(len(kept), dtype=bool)
    if now.label is not None:
        same = same_label(label[kept], now.label[place[kept]])
        # The entry of a row without a label has no meaning.
        same &= np.isin(place[kept], labelled)
    if digest is not None:
        same &= before.digest[kept] == digest[place[kept]]
    position = kept[same]
    return Joined(
        position=position,
        place=place[position],
        gone=np.flatnonzero(place < 0),
        changed=kept[~same],
        n_other=len(np.setdiff1d(labelled, place[kept])),
    )


def _by_content(before: RunRows, label: np.ndarray, now: Records, digest: np.ndarray) -> Joined:
    known = encode_labels(label, "label")
    codes = np.full(len(now), -1)
    # Without a label, no row is what it was.
    if now.label is not None:
        codes = places_in(known.classes, now.label)
    if now.unlabelled is not None:
        codes[now.unlabelled] = -1
    keys = [_keys(before.digest, known.codes), _keys(digest, codes)]
    number = np.unique(np.concatenate(keys), return_inverse=True)[1]
    first, second = number[: len(before)], number[len(before) :]
    counts = [np.bincount(part, minlength=number.max(initial=-1) + 1) for part in (first, second)]
    _check_copies(before, now, first, counts)
    # Copies of one row are taken in their order: nothing else tells them apart.
    same = counts[0] == counts[1]
    place = np.full(len(before), -1)
    place[_grouped(first, same)] = _grouped(second, same)
    position = np.flatnonzero(place >= 0)
    return Joined(
        position=position,
        place=place[position],
        gone=np.flatnonzero(place < 0),
        changed=np.empty(0, dtype=np.int64),
        n_other=len(np.setdiff1d(now.labelled(), place[position])),
    )


def _keys(digest: np.ndarray, code: np.ndarray) -> np.ndarray:
    """Return one number for the content and the label of each row."""
    # An odd multiplier near 2**64 / golden ratio: other labels of one content get far away keys.
    return np.asarray(digest + (code + 1).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))


def _grouped(number: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return the positions of the wanted numbers, group by group, each in ascending order."""
    order = np.argsort(number, kind="stable")
    return np.asarray(order[wanted[number[order]]])


def _check_copies(
    before: RunRows, now: Records, number: np.ndarray, counts: list[np.ndarray]
) -> None:
    """Raise if copies of a row came or went: which of them is which cannot be told."""
    unclear = (counts[0] != counts[1]) & (counts[0] > 0) & (counts[1] > 0)
    if unclear.any():
        copies = np.flatnonzero(unclear)[0]
        position = int(np.flatnonzero(number == copies)[0])
        raise InputError(
            f"{now.source} has changed: {counts[1][copies]} of its rows are equal to row "
            f"{before.row_id[position]}, of which the run has {counts[0][copies]}, so that they "
            "cannot be told apart. Give the rows a column of ids, and select again."
        )


@dataclass(frozen=True)
class JoinedItems:
    """The images or texts of a run's rows, where they are as they were; the others are unreadable.

    The bytes of each item are compared with the digest in the run before anything of it is shown.
    A run from somebody else may name any source: only content that its author knew matches.
    """

    items: Items
    place: np.ndarray
    """Row number in the source of each of the run's rows; -1 where it has none."""
    digest: np.ndarray | None
    """None where the features, not the items, were compared when the rows were joined."""

    @property
    def kind(self) -> Literal["image", "text", "sound"]:
        """What the items are."""
        return self.items.kind

    def __len__(self) -> int:
        return len(self.place)

    def __getitem__(self, row: int) -> Any:
        self.stored(row)
        return self.items[int(self.place[row])]

    def stored(self, row: int) -> bytes:
        """Return the stored bytes of an item; raise `UnreadableItemError` if it has changed."""
        place = int(self.place[row])
        content = b"" if place < 0 else self.items.stored(place)
        changed = self.digest is not None and content_digests([content])[0] != self.digest[row]
        if place < 0 or changed:
            raise UnreadableItemError(f"The item of row {row} has changed since the run was made.")
        return content

    def file(self, row: int) -> Path | None:
        """Return the file that a row has to itself; None where it has none, or is gone."""
        place = int(self.place[row])
        return None if place < 0 else self.items.file(place)

    def content(self) -> Iterator[bytes]:
        """Yield the stored bytes of each item."""
        return map(self.stored, range(len(self)))
