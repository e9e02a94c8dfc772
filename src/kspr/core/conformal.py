"""Levels that rows checked by a person give, whatever the noise is.

Conformal selection (Jin and Candes 2023) with "the label is wrong" as the hypothesis that a kept
row rejects. A pool of rows is fixed before anybody looks at a label, and the checked rows are drawn
from it at random. Then the checked rows and the others are exchangeable, and no assumption on how
labels go wrong is needed: the proof is in docs/theory.md.
"""

import numpy as np

from kspr.core.cutoffs import reachable

__all__ = ["conformal_levels", "draw_order", "loose_pool"]

_LOOSER = 2.0
"""Level at which rows enter the pool, as a multiple of the level asked for."""
_LEAST_POOL = 1_000
"""Rows of least doubt that are in the pool even where no level reaches them."""


def loose_pool(doubt: np.ndarray, level: np.ndarray | None, q: float) -> np.ndarray:
    """Return a mask of the rows that checks are drawn from: those that could be kept at a loose q.

    `level` is the smallest level at which each row is kept without checks; None where there are no
    levels, and then every row is in the pool. A pool much larger than what can be kept wastes
    checks; a smaller one loses rows that checks could have kept.
    """
    able = np.isfinite(doubt)
    if level is None:
        return np.asarray(able)
    size = max(int(np.sum(able & (level <= _LOOSER * q))), min(_LEAST_POOL, int(able.sum())))
    pool = np.zeros(len(doubt), dtype=bool)
    # By doubt alone: a cut per class has levels in another order.
    pool[np.argsort(doubt, kind="stable")[:size]] = True
    return pool


def draw_order(pool: np.ndarray, seed: int) -> np.ndarray:
    """Return the rows of a pool in the random order in which they are to be checked.

    `pool` is a mask over all rows. Drawing 50 rows and later 50 more takes the first 100 of this
    order: portions are one draw.
    """
    rows = np.flatnonzero(pool)
    return np.asarray(np.random.default_rng([seed, _STREAM]).permutation(rows))


_STREAM = 0x636865636B
"""Keeps this draw apart from a user's own `default_rng(seed)`."""


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
    rest = np.ones(len(doubt), dtype=bool)
    rest[checked] = False
    ordered = np.sort(doubt[rest])
    bad = np.sort(doubt[checked[wrong]])
    # Rows of equal doubt are kept together, and a wrong row of the same doubt counts against them.
    n_kept = np.searchsorted(ordered, ordered, side="right")
    n_wrong = np.searchsorted(bad, ordered, side="right")
    # Both "+ 1" count the row that is decided on among the checked ones, as a wrong one.
    estimate = len(ordered) * (1 + n_wrong) / ((len(checked) + 1) * n_kept)
    # A looser cut with a smaller estimate keeps this row as well.
    levels = np.append(reachable(estimate), np.inf)
    return np.asarray(levels[np.searchsorted(ordered, doubt)])
