"""The first look at one partition of data that many machines hold: what each of them runs.

Rows have numbers in the whole data, which decide their half and the blocks that they are worked at
in. `_partitions_fit.py` and `_partitions_judge.py` have the passes that follow.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from kspr.core.halves import Census, Deal, row_coins, row_keys, text_coins
from kspr.core.labels import as_label_array, encode_labels, missing_labels, name_rows, places_in
from kspr.errors import InputError
from kspr.selectors.engines.cluster import on_worker
from kspr.selectors.feature_rows import DenseFeatures, largest_size, rows_not_finite

__all__ = [
    "Dealt",
    "Held",
    "Look",
    "Marks",
    "Placed",
    "Rows",
    "look",
    "mark",
    "merge_looks",
    "read_rows",
]


class Held:
    """Something that workers hold: Dask asks for its size, to decide where it is worked at."""

    def __sizeof__(self) -> int:
        own = vars(self).values()
        return object.__sizeof__(self) + sum(v.nbytes for v in own if isinstance(v, np.ndarray))


@dataclass(frozen=True)
class Rows(Held):
    """The rows of a partition, as a worker holds them."""

    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray | None = None


def read_rows(X: Any, y: Any, groups: Any = None) -> Rows:
    """Return a partition of arrays or data frames as rows."""
    found = np.asarray(X)
    if found.ndim != 2:
        raise InputError(f"X must have two dimensions (rows, features), got {found.ndim}.")
    own = None if groups is None else as_label_array(groups, "groups")
    return Rows(found, as_label_array(y), own)


@dataclass(frozen=True)
class Marks(Held):
    """What later passes need of the labels and the content of rows, a few bytes each."""

    classes: np.ndarray
    codes: np.ndarray
    """Positions in `classes`, which are those of this partition."""
    coins: np.ndarray | None
    """The last bits of what rows share that belong together, ``(splits, rows)``; None where none
    do."""


@dataclass(frozen=True)
class Placed(Held):
    """Where the rows of a partition belong."""

    codes: np.ndarray
    """Positions in the classes of all partitions."""
    half: np.ndarray
    """Halves by split: ``(splits, rows)``."""


@dataclass(frozen=True)
class Look:
    """What a partition has, checked; states of several partitions merge."""

    number: int
    """The partition that types are taken from."""
    n_features: int
    dtype: str
    texts: bool
    """Whether labels are texts."""
    censuses: tuple[Census, ...]
    """One for every split."""
    largest: float
    limit: float
    digest: int


@on_worker
def look(
    rows: Rows, number: int, start: int, seeds: Sequence[int], keep_copies: bool
) -> tuple[Look | None, Marks | None]:
    """Check the rows of a partition and count them; None for a partition without rows."""
    if len(rows.X) != len(rows.y):
        raise InputError(
            f"Partition {number} of X has {len(rows.X)} rows, but that of y {len(rows.y)}. "
            "Both must be cut at the same rows."
        )
    if not len(rows.X):
        return None, None
    if rows.X.dtype.kind not in "fiub":
        raise InputError(f"Partition {number} of X holds {rows.X.dtype}, not numbers.")
    missing = missing_labels(rows.y)
    if missing.size:
        raise InputError(
            f"y has no label (NaN or inf, or None) in {name_rows(start + missing)}. Drop these "
            "rows first."
        )
    labels = encode_labels(rows.y)
    coins, size, limit, content = _walked(rows, start, seeds, keep_copies)
    censuses = []
    for split, seed in enumerate(seeds):
        keys = row_keys(start, len(rows.y), seed)
        shared = keys if coins is None else coins[split]
        censuses.append(Census.of(labels.classes, labels.codes, keys, shared))
    found = Look(
        number,
        rows.X.shape[1],
        str(rows.X.dtype),
        isinstance(labels.classes.tolist()[0], str),
        tuple(censuses),
        size,
        limit,
        _digest(content, rows.y, start),
    )
    return found, _marks(labels.classes, labels.codes, coins)


def _walked(
    rows: Rows, start: int, seeds: Sequence[int], keep_copies: bool
) -> tuple[np.ndarray | None, float, float, np.ndarray]:
    """Walk the features once: widening them costs more than all that is asked of them.

    Return the coins of rows that belong together, the largest size, the largest one that is
    possible, and a number for the content of every row.
    """
    coins = _coins(rows, seeds, keep_copies)
    content = np.empty(len(rows.y), dtype=np.uint64)
    largest, limit = 0.0, np.inf
    for here, block in _blocks(rows.X):
        _check_finite(block, start + here.start)
        size, limit = largest_size(DenseFeatures(block))
        largest = max(largest, size)
        content[here] = _content(rows.X[here])
        if coins is not None and rows.groups is None:
            for split, seed in enumerate(seeds):
                coins[split, here] = row_coins(block, seed)
    return coins, largest, limit, content


def _check_finite(block: np.ndarray, start: int) -> None:
    # The quicker question first: a sum is finite only if all of its terms are.
    if not np.isfinite(block.sum(dtype=np.float64)):
        bad = rows_not_finite(DenseFeatures(block))
        if bad.size:
            raise InputError(
                f"X holds NaN or inf in {name_rows(start + bad)}. Drop these rows or fill them in."
            )


def _blocks(X: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    start = 0
    for block in DenseFeatures(X).blocks():
        yield slice(start, start + len(block)), block
        start += len(block)


def _coins(rows: Rows, seeds: Sequence[int], keep_copies: bool) -> np.ndarray | None:
    """Return room for coins, filled where groups decide; None where rows are on their own."""
    if rows.groups is None and not keep_copies:
        return None
    coins = np.empty((len(seeds), len(rows.y)), dtype=np.uint64)
    if rows.groups is not None:
        for split, seed in enumerate(seeds):
            coins[split] = text_coins(rows.groups, seed)
    return coins


def _marks(classes: np.ndarray, codes: np.ndarray, coins: np.ndarray | None) -> Marks:
    last = None if coins is None else (coins & np.uint64(1)).astype(np.uint8)
    return Marks(classes, codes.astype(np.min_scalar_type(len(classes))), last)


@on_worker
def mark(rows: Rows, seeds: Sequence[int], keep_copies: bool) -> Marks:
    """Return the marks of a partition that an earlier start has looked at."""
    labels, coins = encode_labels(rows.y), _coins(rows, seeds, keep_copies)
    if coins is not None and rows.groups is None:
        for here, block in _blocks(rows.X):
            for split, seed in enumerate(seeds):
                coins[split, here] = row_coins(block, seed)
    return _marks(labels.classes, labels.codes, coins)


def merge_looks(*looks: Look | None) -> Look | None:
    """Return what neighbouring partitions have together."""
    there = [found for found in looks if found is not None]
    return reduce(_both, there) if there else None


def _both(one: Look, two: Look) -> Look:
    for what, first, second in (
        ("features", one.n_features, two.n_features),
        ("features of type", one.dtype, two.dtype),
        ("labels that are", *("texts" if found.texts else "numbers" for found in (one, two))),
    ):
        if first != second:
            counted = isinstance(first, int)
            shown = (f"{v} {what}" if counted else f"{what} {v}" for v in (first, second))
            here, there = shown
            raise InputError(
                f"Partition {one.number} has {here}, but partition {two.number} has {there}. All "
                "partitions must have the same columns and types."
            )
    return Look(
        one.number,
        one.n_features,
        one.dtype,
        one.texts,
        tuple(a.merge(b) for a, b in zip(one.censuses, two.censuses, strict=True)),
        max(one.largest, two.largest),
        one.limit,
        (one.digest + two.digest) % (1 << 64),
    )


def _content(X: np.ndarray) -> np.ndarray:
    """Return a number for the bytes of each row."""
    block = np.ascontiguousarray(X)
    # As few and wide numbers as the bytes of a row can be read as.
    width = next(w for w in (8, 4, 2, 1) if block.shape[1] * block.itemsize % w == 0)
    words = block.view(f"u{width}").astype(np.uint64, copy=False)
    return np.asarray(words @ (row_keys(0, words.shape[1], 0) | np.uint64(1)))


def _digest(content: np.ndarray, y: np.ndarray, start: int) -> int:
    """Return a number that changes with any value, label or place of a row, as a sum over rows."""
    keys = row_keys(start, len(content), 0) | np.uint64(1)
    return int(((content ^ text_coins(y, 0)) * keys).sum(dtype=np.uint64))


@dataclass(frozen=True)
class Dealt:
    """Who is in which half, split by split."""

    classes: np.ndarray
    n_rows: int
    seeds: tuple[int, ...]
    deals: tuple[Deal, ...]
    keep_copies: bool

    def place(self, marks: Marks, start: int) -> tuple[Placed, list[np.ndarray]]:
        """Return where the rows of a partition belong, and their keys, split by split."""
        codes = places_in(self.classes, marks.classes)[marks.codes]
        keys = [row_keys(start, len(codes), seed) for seed in self.seeds]
        half = [
            deal.halves(codes, own, own if marks.coins is None else marks.coins[split])
            for split, (deal, own) in enumerate(zip(self.deals, keys, strict=True))
        ]
        return Placed(codes.astype(np.int32), np.stack(half)), keys
