"""Rows with any number of labels, as records of their pairs with every label.

What is done with one label a row is then done with a pair: its label says whether the row has the
label, `cat` or `not cat`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from kspr.errors import InputError
from kspr.sources.options import ReadOptions
from kspr.sources.readers.file_checks import check_row_count
from kspr.sources.records import Items, Records


@dataclass(frozen=True, eq=False, kw_only=True)
class Pairs(Records):
    """Pairs of a row and a label: that of row ``i`` and label ``k`` is ``i * len(labels) + k``."""

    rows: Records
    """The rows themselves, whose labels are texts as in the source."""
    labels: tuple[str, ...]
    """The labels, sorted."""


class PairRows:
    """Features of pairs: those of each row several times, without a copy of them."""

    def __init__(self, rows: Any, times: int) -> None:
        self.rows = rows
        self._times = times
        self.shape = (len(rows) * times, *rows.shape[1:])

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple):
            return PairRows(self.rows[:, *key[1:]], self._times)[key[0]]
        if isinstance(key, int | np.integer):
            return self.rows[key // self._times]
        place = np.arange(*key.indices(len(self))) if isinstance(key, slice) else np.asarray(key)
        return self.rows[place // self._times]


@dataclass(frozen=True)
class PairItems:
    """Images, texts or sounds of pairs."""

    items: Items
    times: int

    @property
    def kind(self) -> Literal["image", "text", "sound"]:
        """What the items are."""
        return self.items.kind

    def __len__(self) -> int:
        return len(self.items) * self.times

    def __getitem__(self, row: int) -> Any:
        return self.items[row // self.times]

    def stored(self, row: int) -> bytes:
        """Return the stored bytes of a pair's item."""
        return self.items.stored(row // self.times)

    def file(self, row: int) -> Path | None:
        """Return the file that a pair's row has to itself; None where it has none."""
        return self.items.file(row // self.times)

    def content(self) -> Iterator[bytes]:
        """Yield the stored bytes of each pair's item."""
        for content in self.items.content():
            yield from [content] * self.times


def sets_of(label: np.ndarray, empty: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return labels as texts; the rows `empty` have none, and an empty text."""
    texts = label.astype(np.str_)
    texts[empty] = ""
    return texts


def pairs_of(records: Records, options: ReadOptions) -> Pairs:
    """Return the pairs of the rows of `records` with every label that is given to any of them."""
    if records.label is None:
        raise InputError(
            records.no_labels
            or f"{records.source} has no labels that could be found. Name their column with "
            "--label, or their file with --labels."
        )
    separator, notes = str(options.labels_separator), records.notes
    gaps = np.empty(0, dtype=np.int64) if records.unlabelled is None else records.unlabelled
    dropped = options.missing == "drop"
    if gaps.size and not dropped:
        count = f"{gaps.size:,} of {len(records):,} rows have no label"
        notes += (f"{count}, which is taken as it stands. --missing drop leaves them out.",)
    given = _split(sets_of(records.label, gaps), separator)
    names = sorted(set().union(*given))
    if len(names) < 2:
        raise InputError(
            f"With --labels-separator {separator!r}, {records.source} has "
            f"{'no label' if not names else f'the label {names[0]!r} alone'}. Correct the "
            "separator, or leave it out where rows have one label each."
        )
    k = len(names)
    check_row_count(len(records) * k, f"{records.source}, with a pair of each row and label,")
    ids = [f"{row}:{name}" for row in records.row_id.tolist() for name in names]
    unlabelled = gaps[:, None] * k + np.arange(k)
    truth = records.truth
    return Pairs(
        source=records.source,
        reader=records.reader,
        row_id=np.array(ids),
        label=_claims(given, names),
        features=None if records.features is None else PairRows(records.features, k),
        items=None if records.items is None else PairItems(records.items, k),
        truth=None if truth is None else _claims(_split(sets_of(truth, []), separator), names),
        groups=None if records.groups is None else np.repeat(records.groups, k),
        named=records.named,
        notes=notes,
        no_labels=records.no_labels if dropped else None,
        columns=records.columns,
        unlabelled=unlabelled.ravel() if gaps.size and dropped else None,
        encoder=records.encoder,
        digest=None if records.digest is None else np.repeat(records.digest, k),
        rows=records if dropped else replace(records, unlabelled=None, no_labels=None),
        labels=tuple(names),
    )


def _split(texts: np.ndarray, separator: str) -> list[list[str]]:
    parts = {text: text.split(separator) for text in set(texts.tolist())}
    known = {t: [part.strip() for part in of if part.strip()] for t, of in parts.items()}
    return [known[text] for text in texts.tolist()]


def _claims(given: list[list[str]], names: list[str]) -> np.ndarray:
    """Return what each pair claims: a name, or the name behind ``not``."""
    claims = np.array([f"not {name}" for name in names], dtype=np.str_)
    table = np.tile(claims, (len(given), 1))
    place = {name: k for k, name in enumerate(names)}
    for row, of_row in enumerate(given):
        for name in of_row:
            # A label that is given to no row is no question.
            if name in place:
                table[row, place[name]] = name
    return table.ravel()
