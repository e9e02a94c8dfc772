"""Levels that rows checked by a person give, whatever the noise is.

Conformal selection (Jin and Candes 2023) with "the label is wrong" as the hypothesis that a kept
row rejects. A pool of rows is fixed before anybody looks at a label, and the checked rows are drawn
from it at random. Then the checked rows and the others are exchangeable, and no assumption on how
labels go wrong is needed: the proof is in docs/theory.md.
"""

from dataclasses import dataclass

import numpy as np

from kspr.core.cutoffs import reachable
from kspr.errors import InputError

__all__ = ["ConformalLevels", "conformal_levels", "draw_order"]


@dataclass(frozen=True)
class ConformalLevels:
    """The smallest level at which each row is kept, and what the checked rows say of it."""

    q_value: np.ndarray
    """0 for rows that were checked and are right, infinite for wrong ones and outside the pool."""
    n_checked: int
    n_wrong: int
    """Checked rows whose label is wrong."""
    n_pool: int

    @property
    def smallest(self) -> float:
        """The smallest level that keeps a row which nobody has checked; 1 if there is none."""
        open_rows = (self.q_value > 0) & np.isfinite(self.q_value)
        return float(self.q_value[open_rows].min()) if open_rows.any() else 1.0


def draw_order(pool: np.ndarray, seed: int) -> np.ndarray:
    """Return the rows of a pool in the random order in which they are to be checked.

    `pool` is a mask over all rows. Drawing 50 rows and later 50 more takes the first 100 of this
    order: portions are one draw.
    """
    rows = np.flatnonzero(pool)
    return np.asarray(np.random.default_rng([seed, _STREAM]).permutation(rows))


_STREAM = 0x636865636B
"""Keeps this draw apart from a user's own `default_rng(seed)`."""


def conformal_levels(
    doubt: np.ndarray, pool: np.ndarray, checked: np.ndarray, wrong: np.ndarray
) -> ConformalLevels:
    """Return the smallest level at which each row is kept.

    `doubt` orders all rows, `pool` is a mask of the rows that could be drawn; both must not depend
    on the answers. `checked` are the rows of the pool that were drawn at random and looked at, and
    `wrong` says which of their labels are wrong.

    With M rows of the pool left unchecked, n checked, V(t) of them wrong with a doubt of at most t,
    and R(t) unchecked rows up to t, a cut at t has the level ``M (1 + V(t)) / ((n + 1) R(t))``.
    The level of a row is the smallest over all cuts that keep it. For any q chosen without looking
    at the answers, the mean share of wrong labels among the rows of level at most q is at most q.

    >>> doubt, pool = np.arange(10) / 10, np.ones(10, dtype=bool)
    >>> levels = conformal_levels(doubt, pool, np.array([1, 8]), np.array([False, True]))
    >>> levels.q_value.round(3)
    array([0.381, 0.   , 0.381, 0.381, 0.381, 0.381, 0.381, 0.381,   inf,
           0.667])
    """
    checked, wrong = np.asarray(checked), np.asarray(wrong, dtype=bool)
    if len(checked) and not pool[checked].all():
        outside = checked[~pool[checked]][0]
        raise InputError(
            f"Row {outside} was checked but is not in the pool that rows are drawn from."
        )
    q_value = np.full(len(doubt), np.inf)
    rest = pool.copy()
    rest[checked] = False
    rows = np.flatnonzero(rest)
    if len(rows):
        q_value[rows] = _levels(doubt[rows], np.sort(doubt[checked[wrong]]), len(checked))
    q_value[checked[~wrong]] = 0.0
    return ConformalLevels(q_value, len(checked), int(wrong.sum()), int(pool.sum()))


def _levels(doubt: np.ndarray, wrong: np.ndarray, n_checked: int) -> np.ndarray:
    """Return the level of each unchecked row, given the sorted doubts of the wrong checked ones."""
    order = np.argsort(doubt, kind="stable")
    ordered = doubt[order]
    # Rows of equal doubt are kept together, and a wrong row of the same doubt counts against them.
    n_kept = np.searchsorted(ordered, ordered, side="right")
    n_wrong = np.searchsorted(wrong, ordered, side="right")
    # Both "+ 1" count the row that is decided on among the checked ones, as a wrong one.
    estimate = len(doubt) * (1 + n_wrong) / ((n_checked + 1) * n_kept)
    levels = np.empty(len(doubt))
    # A looser cut with a smaller estimate keeps this row as well.
    levels[order] = reachable(estimate)
    return levels
