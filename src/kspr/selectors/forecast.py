"""How many of the right labels a number of checks can be expected to keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kspr.core.coded import row_ranges
from kspr.core.conformal import loose_pool
from kspr.errors import InputError
from kspr.selectors.controls.checked import Guarantee, steps_of
from kspr.selectors.options import DOUBTING

if TYPE_CHECKING:
    from kspr.selectors.selection import Selection

__all__ = ["MOST_CHECKS", "checks_needed", "expected_recall"]

_PLAYED = 5
"""Draws that are played through; their mean is the forecast."""
_TRIED = (20, 30, 40, 50, 60, 70, 80, 90, 100, 120, 150, 200, 250, 300, 400, 500, 700, 1000)
"""Numbers of checks among which the smallest that is enough is looked for."""
MOST_CHECKS = _TRIED[-1]
"""Largest number of checks that is looked into."""
_ENOUGH = 0.9
"""Part of the recall of the best cut that is enough."""


def expected_recall(
    selection: Selection, n: int, q: float, guarantee: Guarantee, confidence: float
) -> float:
    """Return the share of the right labels that `n` checks in all are expected to keep.

    The draw is played through with labels that are wrong as often as the fit says. Answers that
    are there already correct that: if fewer of them are wrong than the fit said, all chances are
    lowered; if more, the surplus is spread over all rows.
    """
    chance, doubt, checked = _chances(selection), selection.statistic, selection.checked
    level = selection.q_value if checked is None else checked.level
    inside = np.flatnonzero(loose_pool(doubt, level, q))
    n = min(n, len(inside))
    kept = []
    for seed in range(_PLAYED):
        rng = np.random.default_rng(seed)
        drawn = rng.permutation(len(inside))[:n]
        wrong = rng.random(n) < chance[inside[drawn]]
        steps = steps_of(doubt[inside], drawn, wrong, q, guarantee, confidence)
        keep = steps.of(doubt[inside]) <= q
        keep[drawn] = False
        # Answers decide on their own rows.
        kept.append(np.sum(1 - chance[inside[keep]]) + np.sum(~wrong))
    return float(min(1.0, np.mean(kept) / max(np.sum(1 - chance), 1e-9)))


def checks_needed(
    selection: Selection, q: float, guarantee: Guarantee, confidence: float, done: int = 0
) -> int | None:
    """Return about how many checks keep nine tenths of what the best cut at `q` would keep.

    More than `done`, which have not been enough. None if more than `MOST_CHECKS` are needed, or no
    cut keeps anything.
    """
    best = _best_recall(_chances(selection), q)
    if best is None:
        return None
    return next(
        (
            n
            for n in _TRIED
            if n > done
            and expected_recall(selection, n, q, guarantee, confidence) >= _ENOUGH * best
        ),
        None,
    )


def _best_recall(chance: np.ndarray, q: float) -> float | None:
    """Return the share of right labels below the loosest cut that meets `q`; None without one.

    `chance` rises with the doubt by which rows are ordered, so its own order is theirs.
    """
    ordered = np.sort(chance)
    n_kept, wrong, wrong_kept = 0, 0.0, 0.0
    # Part by part: sums of all rows at once take several times their memory.
    for rows in row_ranges(len(ordered)):
        total = wrong + np.cumsum(ordered[rows])
        within = np.flatnonzero(total <= q * np.arange(rows.start + 1, rows.stop + 1))
        if within.size:
            n_kept, wrong_kept = rows.start + int(within[-1]) + 1, float(total[within[-1]])
        wrong = float(total[-1])
    return (n_kept - wrong_kept) / (len(ordered) - wrong) if n_kept else None


def _chances(selection: Selection) -> np.ndarray:
    """Return how likely each label is wrong, by the fit and by the answers that are there."""
    if selection.control not in DOUBTING:
        raise InputError(
            "A forecast needs the chance that a label is wrong, which only control='transition' "
            f"estimates, got {selection.control!r}."
        )
    chance, checked = selection.statistic, selection.checked
    if checked is None or not checked.calibrate:
        return chance
    seen = checked.rows[checked.counted]
    found, expected = np.sum(~checked.right[checked.counted]), chance[seen].sum()
    # One more on either side: no wrong label among a few checks is no proof of none. What the
    # fit did not expect may be anywhere.
    chance = chance * min(1.0, (found + 1) / (expected + 1))
    return np.asarray(np.minimum(chance + max(0.0, found - expected) / len(seen), 1.0))
