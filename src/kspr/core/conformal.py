"""Levels that rows checked by a person give, whatever the noise is.

Conformal selection (Jin and Candes 2023) with "the label is wrong" as the hypothesis that a kept
row rejects. A pool of rows is fixed before anybody looks at a label, and the checked rows are drawn
from it at random. Then the checked rows and the others are exchangeable, and no assumption on how
labels go wrong is needed: the proof is in docs/theory.md.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kspr.core.arrays import reachable, row_blocks

__all__ = [
    "LevelSteps",
    "conformal_levels",
    "conformal_steps",
    "draw_order",
    "loose_pool",
    "smallest",
]

_LOOSER = 2.0
"""Level at which rows enter the pool, as a multiple of the level asked for."""
_LEAST_POOL = 1_000
"""Rows of least doubt that are in the pool even where no level reaches them."""


def loose_pool(doubt: Any, level: Any, q: float) -> np.ndarray:
    """Return a mask of the rows that checks are drawn from: those that could be kept at a loose q.

    `doubt` orders the rows. `level` is the smallest level at which each row is kept without checks;
    None where there are no levels, and then every row is in the pool. A pool much larger than what
    can be kept wastes checks; a smaller one loses rows that checks could have kept. Both are
    arrays, or anything that gives arrays for slices.
    """
    blocks = list(row_blocks(len(doubt), 8))
    pool = np.empty(len(doubt), dtype=bool)
    for rows in blocks:
        pool[rows] = np.isfinite(doubt[rows])
    if level is None:
        return pool
    loose = sum(int(np.sum(pool[rows] & (level[rows] <= _LOOSER * q))) for rows in blocks)
    size = max(loose, min(_LEAST_POOL, int(pool.sum())))
    # By doubt alone: a cut per class has levels in another order.
    last = smallest(doubt, size) if size else -np.inf
    left = size - sum(int(np.sum(doubt[rows] < last)) for rows in blocks)
    for rows in blocks:
        block = doubt[rows]
        pool[rows] = block < last
        # Of rows of equal doubt the first ones.
        equal = np.flatnonzero(block == last)[:left]
        pool[rows][equal] = True
        left -= len(equal)
    return pool


def smallest(values: Any, k: int) -> float:
    """Return the `k`-th smallest of all values, which give arrays for slices: none is copied whole.

    >>> smallest(np.array([3.0, -1.0, np.inf, 0.5]), 2)
    0.5
    """
    known = 0
    # Sixteen bits after the other: how many values begin with those that are known already?
    for shift in (48, 32, 16, 0):
        counts = np.zeros(1 << 16, dtype=np.int64)
        for rows in row_blocks(len(values), 8):
            bits = _ordered_bits(np.asarray(values[rows], dtype=np.float64)) >> np.uint64(shift)
            same = bits[bits >> np.uint64(16) == np.uint64(known)]
            counts += np.bincount((same & np.uint64(0xFFFF)).astype(np.int64), minlength=1 << 16)
        below = np.cumsum(counts)
        place = int(np.searchsorted(below, k))
        k -= int(below[place] - counts[place])
        known = (known << 16) | place
    key = np.array([known], dtype=np.uint64)
    return float(np.where(key >> _SIGN, key ^ (np.uint64(1) << _SIGN), ~key).view(np.float64)[0])


def _ordered_bits(values: np.ndarray) -> np.ndarray:
    """Return whole numbers in the order of the values; adding 0 makes 0 of -0."""
    bits = (values + 0.0).view(np.uint64)
    return np.asarray(np.where(bits >> _SIGN, ~bits, bits | (np.uint64(1) << _SIGN)))


_SIGN = np.uint64(63)


def draw_order(pool: np.ndarray, seed: int) -> np.ndarray:
    """Return the rows of a pool in the random order in which they are to be checked.

    `pool` is a mask over all rows. Drawing 50 rows and later 50 more takes the first 100 of this
    order: portions are one draw.
    """
    # In few bytes and in place: the pool may be nearly all of a hundred million rows.
    kind = np.int32 if len(pool) <= np.iinfo(np.int32).max else np.int64
    rows = np.flatnonzero(pool).astype(kind)
    np.random.default_rng([seed, _STREAM]).shuffle(rows)
    return rows


_STREAM = 0x636865636B
"""Keeps this draw apart from a user's own `default_rng(seed)`."""


@dataclass(frozen=True)
class LevelSteps:
    """Levels of all rows as a function of their doubt: one for each of a few cuts."""

    cuts: np.ndarray
    """Doubts, ascending."""
    levels: np.ndarray
    """The level of a row up to each cut and above the one before; last, of those above all."""

    def places(self, doubt: Any) -> np.ndarray:
        """Return which of the levels each row has; `doubt` gives arrays for slices."""
        found = np.empty(len(doubt), dtype=np.min_scalar_type(len(self.cuts)))
        for rows in row_blocks(len(doubt), 8):
            found[rows] = np.searchsorted(self.cuts, doubt[rows])
        return found

    def of(self, doubt: np.ndarray) -> np.ndarray:
        """Return the levels of rows."""
        return np.asarray(self.levels[self.places(doubt)])


def conformal_levels(doubt: np.ndarray, checked: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    """Return the smallest level at which each row of a pool is kept.

    `doubt` orders the pool, and must not depend on the answers. `checked` are the positions of the
    rows that were drawn at random and looked at, and `wrong` says which of their labels are wrong.

    With M rows of the pool left unchecked, n checked, V(t) of them wrong with a doubt of at most t,
    and R(t) unchecked rows up to t, a cut at t has the level ``M (1 + V(t)) / ((n + 1) R(t))``.
    The level of a row is the smallest over all cuts that keep it; checked rows get the level of
    their doubt. For any q chosen without looking at the answers, the mean share of wrong labels
    among the unchecked rows of level at most q is at most q.

    >>> levels = conformal_levels(np.arange(10), np.array([1, 8]), np.array([False, True]))
    >>> levels.round(3)
    array([0.381, 0.381, 0.381, 0.381, 0.381, 0.381, 0.381, 0.381, 0.667,
           0.667])
    """
    return conformal_steps(doubt, checked, wrong).of(doubt)


def conformal_steps(doubt: np.ndarray, checked: np.ndarray, wrong: np.ndarray) -> LevelSteps:
    """Return the levels of `conformal_levels` as a function of the doubt.

    Between two checked rows that are wrong the level of a cut only falls as more rows are kept: so
    the last cut before each wrong row is as good as all of them.
    """
    rest = np.ones(len(doubt), dtype=bool)
    rest[checked] = False
    bad = np.unique(doubt[checked[wrong]])
    n_wrong = np.searchsorted(np.sort(doubt[checked[wrong]]), bad, side="right")
    size = np.zeros(len(bad) + 1, dtype=np.int64)
    last = np.full(len(bad) + 1, -np.inf)
    for rows in row_blocks(len(doubt), 8):
        open_doubt = doubt[rows][rest[rows]]
        # A wrong row of the same doubt counts against a row.
        place = np.searchsorted(bad, open_doubt, side="right")
        size += np.bincount(place, minlength=len(size))
        np.maximum.at(last, place, open_doubt)
    used = size > 0
    n_kept, n_wrong = np.cumsum(size)[used], np.append(0, n_wrong)[used]
    # Both "+ 1" count the row that is decided on among the checked ones, as a wrong one.
    estimate = size.sum() * (1 + n_wrong) / ((len(checked) + 1) * n_kept)
    # A looser cut with a smaller estimate keeps this row as well.
    return LevelSteps(last[used], np.append(reachable(estimate), np.inf))
