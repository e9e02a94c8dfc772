"""Where the rows of a run are in its source as it is now: found again by id, else by content."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from kspr.core.coded import AllRows, Coded, chosen_rows, row_ranges, stored_of
from kspr.core.labels import encode_labels, places_in, same_label
from kspr.errors import InputError, UnreadableItemError
from kspr.sources.joining import places_of
from kspr.sources.readers.file_checks import listed
from kspr.sources.records import (
    Items,
    Records,
    all_distinct,
    content_digests,
    digest_parts,
)

__all__ = ["Joined", "JoinedItems", "RunRows", "join_rows"]


@dataclass(frozen=True, eq=False)
class RunRows:
    """The rows that a run was made from; entry i belongs to entry i of its selection."""

    row: Any
    """Row numbers in the source as it was, in ascending order: an array, or `AllRows`."""
    row_id: Any
    """Texts: an array, or a column that is read like one."""
    digest: Any
    """64 bits of each row's content: its features, else the stored bytes of its item. An array, or
    a column that is read like one."""
    named: bool
    """Whether the ids are the source's own; otherwise they are row numbers."""

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True, eq=False)
class Joined:
    """Where the rows of a run are in its source as it is now."""

    position: Any
    """Positions in the run of the rows that are in the source as they were, ascending: an array,
    or `AllRows`."""
    place: Any
    """The row number that each of them has in the source now: an array, or `AllRows`."""
    gone: np.ndarray
    """Positions of rows that are not in the source any more."""
    changed: np.ndarray
    """Positions of rows that have another label or another content there now."""
    n_other: int
    """Rows of the source that the run does not know."""

    def is_all_of(self, n_rows: int) -> bool:
        """Return whether these are all rows of a source of `n_rows`, in its order."""
        place = self.place
        ascends = isinstance(place, AllRows) or bool((place[1:] > place[:-1]).all())
        return len(place) == n_rows and ascends

    @property
    def whole(self) -> bool:
        """Whether every row of the run is there as it was."""
        return not (len(self.gone) or len(self.changed))

    def places(self) -> Any:
        """Return the row number in the source of each row of the run; -1 where it has none.

        An array, or `AllRows`.
        """
        if self.whole:
            return self.place
        found = np.full(len(self.position) + len(self.gone) + len(self.changed), -1)
        found[self.position] = self.place
        return found

    def there(self) -> np.ndarray:
        """Return a mask of the rows of the run that are in the source as they were."""
        mask = np.ones(len(self.position) + len(self.gone) + len(self.changed), dtype=bool)
        mask[self.gone] = mask[self.changed] = False
        return mask

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
    by_id = before.named and now.named
    in_order = by_id and _equal(before.row_id, now.row_id)
    by_id = by_id and all_distinct(before.row_id) and (in_order or all_distinct(now.row_id))
    # Image files are not all read where ids tell them: `JoinedItems` checks each that is shown.
    read = not by_id or now.features is not None or now.items is None or now.items.kind == "text"
    digest = _digests_now(before, now) if read else before.digest
    if (in_order or not by_id) and digest is before.digest and _same_codes(label, now):
        # As it was, row by row, the usual case: nothing has to be looked for.
        every, none = AllRows(len(before)), np.empty(0, dtype=np.int64)
        return Joined(position=every, place=every, gone=none, changed=none, n_other=0)
    if by_id:
        return _by_id(before, label, now, digest if read else None)
    return _by_content(before, label, now, digest)


def _equal(first: Any, second: Any) -> bool:
    return len(first) == len(second) and all(
        np.array_equal(first[rows], second[rows]) for rows in row_ranges(len(first))
    )


def _by_id(before: RunRows, label: Any, now: Records, digest: Any) -> Joined:
    """Find rows by their ids; they are what they were if label and `digest`, if any, agree."""
    place = places_of(before.row_id, now.row_id)
    there = np.flatnonzero(place >= 0)
    same = np.zeros(len(there), dtype=bool)
    given = stored_of(now, "label")
    if given is not None:
        same = same_label(chosen_rows(label, there), chosen_rows(given, place[there]))
        # What the labels hold of a row without one has no meaning.
        same &= np.isin(place[there], now.labelled())
    if digest is not None:
        same &= before.digest[there] == digest[place[there]]
    position = there[same]
    return Joined(
        position=position,
        place=place[position],
        gone=np.flatnonzero(place < 0),
        changed=there[~same],
        n_other=len(np.setdiff1d(now.labelled(), place[there])),
    )


def _by_content(before: RunRows, label: Any, now: Records, digest: Any) -> Joined:
    known = encode_labels(label, "label")
    code = _codes_now(now, known.classes)
    then = _keys(np.asarray(before.digest), known.codes)
    here = _keys(np.asarray(digest), code)
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


def _digests_now(before: RunRows, now: Records) -> Any:
    """Return the digests of the source's rows: those of the run itself where they are the same."""
    start, parts = 0, digest_parts(now)
    # Part by part: in the usual case no digest is held twice.
    for part in parts:
        if not np.array_equal(before.digest[start : start + len(part)], part):
            return np.concatenate([before.digest[:start], part, *parts])
        start += len(part)
    return before.digest if start == len(before) else before.digest[:start]


def _same_codes(label: Any, now: Records) -> bool:
    """Return whether all rows of the source have the labels of the run, in its order."""
    given = stored_of(now, "label")
    if given is None or now.unlabelled is not None or len(given) != len(label):
        return False
    classes = label.classes if isinstance(label, Coded) else encode_labels(label, "label").classes
    for rows in row_ranges(len(label)):
        then, here = (places_in(classes, chosen_rows(column, rows)) for column in (label, given))
        if not np.array_equal(then, here):
            return False
    return True


def _codes_now(now: Records, classes: np.ndarray) -> np.ndarray:
    """Return the place of each row's label among `classes`; -1 for others, and for rows without."""
    label = stored_of(now, "label")
    codes = np.full(len(now), -1, dtype=np.int32)
    # Without labels, no row is what it was.
    if label is not None:
        codes[:] = places_in(classes, label)
        codes[now.unlabelled if now.unlabelled is not None else slice(0)] = -1
    return codes


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
