"""Levels that rows checked by a person give, whatever the noise is.

Conformal selection (Jin and Candes 2023) with "the label is wrong" as the hypothesis that a kept
row rejects. A pool of rows is fixed before anybody looks at a label, and the checked rows are drawn
from it at random. Then the checked rows and the others are exchangeable, and no assumption on how
labels go wrong is needed: the proof is in docs/theory.md.
"""

from dataclasses import dataclass

import numpy as np

from kspr.core.arrays import reachable

__all__ = [
    "LevelSteps",
    "conformal_levels",
    "conformal_steps",
    "draw_order",
    "loose_pool",
]

_LOOSER = 2.0
"""Level at which rows enter the pool, as a multiple of the level asked for."""
_LEAST_POOL = 1_000
"""Rows of least doubt that are in the pool even where no level reaches them."""


def loose_pool(doubt: np.ndarray, level: np.ndarray | None, q: float) -> np.ndarray:
    """Return a mask of the rows that checks are drawn from: those that could be kept at a loose q.

    `doubt` orders the rows. `level` is the smallest level at which each row is kept without checks;
    None where there are no levels, and then every row is in the pool. A pool much larger than what
    can be kept wastes checks; a smaller one loses rows that checks could have kept.
    """
    pool: np.ndarray = np.isfinite(doubt)
    if level is None:
        return pool
    loose = int((pool & (level <= _LOOSER * q)).sum())
    size = max(loose, min(_LEAST_POOL, int(pool.sum())))
    if not size:
        return np.zeros(len(doubt), dtype=bool)
    # By doubt alone: a cut per class has levels in another order.
    last = np.partition(doubt, size - 1)[size - 1]
    pool = np.asarray(doubt < last)
    # Of rows of equal doubt the first ones.
    pool[np.flatnonzero(doubt == last)[: size - int(pool.sum())]] = True
    return pool


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

    def places(self, doubt: np.ndarray) -> np.ndarray:
        """Return which of the levels each row has."""
        place = np.searchsorted(self.cuts, doubt)
        return place.astype(np.min_scalar_type(len(self.cuts)))

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
    # A wrong row of the same doubt counts against a row.
    place = np.searchsorted(bad, doubt[rest], side="right")
    size = np.bincount(place, minlength=len(bad) + 1)
    last = np.full(len(bad) + 1, -np.inf)
    np.maximum.at(last, place, doubt[rest])
    used = size > 0
    n_kept, n_wrong = np.cumsum(size)[used], np.append(0, n_wrong)[used]
    # Both "+ 1" count the row that is decided on among the checked ones, as a wrong one.
    estimate = size.sum() * (1 + n_wrong) / ((len(checked) + 1) * n_kept)
    # A looser cut with a smaller estimate keeps this row as well.
    return LevelSteps(last[used], np.append(reachable(estimate), np.inf))
