"""Where the rows of a run are in its source as it is now: found again by id, else by content."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from kspr.core.coded import chosen_rows, stored_of
from kspr.core.labels import encode_labels, places_in, same_label
from kspr.errors import InputError, UnreadableItemError
from kspr.sources.joining import places_of
from kspr.sources.readers.file_checks import listed
from kspr.sources.records import Items, Records, content_digests, row_digests

__all__ = ["Joined", "JoinedItems", "RunRows", "join_rows"]


@dataclass(frozen=True, eq=False)
class RunRows:
    """The rows that a run was made from; entry i belongs to entry i of its selection."""

    row: np.ndarray
    """Row numbers in the source as it was, in ascending order."""
    row_id: Any
    """Texts: an array, or `RowNumbers`."""
    digest: np.ndarray
    """64 bits of each row's content: its features, else the stored bytes of its item."""
    named: bool
    """Whether the ids are the source's own; otherwise they are row numbers."""

    def __len__(self) -> int:
        return len(self.row)


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
        place = self.place
        return len(place) == n_rows and bool((place[1:] > place[:-1]).all())

    @property
    def whole(self) -> bool:
        """Whether every row of the run is there as it was."""
        return not (len(self.gone) or len(self.changed))

    def places(self) -> np.ndarray:
        """Return the row number in the source of each row of the run; -1 where it has none."""
        found = np.full(len(self.position) + len(self.gone) + len(self.changed), -1)
        found[self.position] = self.place
        return found

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


def join_rows(before: RunRows, label: Any, now: Records) -> Joined:
    """Find the rows of a run, which had the labels `label`, in its source as it is `now`.

    `label` is an array, or `Coded`.

    By id where both have ids, and no id twice; else by content and label, which rows that are
    copies of each other share: where their number has changed, `InputError` is raised.
    """
    if before.named and now.named and all(map(_distinct, (before.row_id, now.row_id))):
        return _by_id(before, label, now)
    return _by_content(before, label, now)


def _distinct(ids: np.ndarray) -> bool:
    return len(set(ids.tolist())) == len(ids)


def _by_id(before: RunRows, label: Any, now: Records) -> Joined:
    place = places_of(before.row_id, now.row_id)
    there = np.flatnonzero(place >= 0)
    same = np.zeros(len(there), dtype=bool)
    given = stored_of(now, "label")
    if given is not None:
        same = same_label(chosen_rows(label, there), chosen_rows(given, place[there]))
        # What the labels hold of a row without one has no meaning.
        same &= np.isin(place[there], now.labelled())
    # Image files are not all read for this: `JoinedItems` checks each one that is shown.
    if now.features is not None or now.items is None or now.items.kind == "text":
        same &= before.digest[there] == row_digests(now)[place[there]]
    position = there[same]
    return Joined(
        position=position,
        place=place[position],
        gone=np.flatnonzero(place < 0),
        changed=there[~same],
        n_other=len(np.setdiff1d(now.labelled(), place[there])),
    )


def _by_content(before: RunRows, label: Any, now: Records) -> Joined:
    known = encode_labels(label, "label")
    code, digest = _codes_now(now, known.classes), row_digests(now)
    if np.array_equal(known.codes, code) and np.array_equal(before.digest, digest):
        # As it was, row by row, the usual case: nothing has to be sorted.
        every, none = _all_rows(before), np.empty(0, dtype=np.int64)
        return Joined(position=every, place=every, gone=none, changed=none, n_other=0)
    then, here = _keys(before.digest, known.codes), _keys(digest, code)
    number = np.unique(np.concatenate([then, here]), return_inverse=True)[1]
    first, second = number[: len(then)], number[len(then) :]
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


def _codes_now(now: Records, classes: np.ndarray) -> np.ndarray:
    """Return the place of each row's label among `classes`; -1 for others, and for rows without."""
    label = stored_of(now, "label")
    codes = np.full(len(now), -1, dtype=np.int32)
    # Without labels, no row is what it was.
    if label is not None:
        codes[:] = places_in(classes, label)
        codes[now.unlabelled if now.unlabelled is not None else slice(0)] = -1
    return codes


def _all_rows(rows: RunRows) -> np.ndarray:
    """Return the position of every row."""
    # Numbers that ascend to the last row are these positions: one array for both.
    is_whole = len(rows) == 0 or rows.row[-1] == len(rows) - 1
    return rows.row if is_whole else np.arange(len(rows))


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
    def kind(self) -> Literal["image", "text"]:
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
