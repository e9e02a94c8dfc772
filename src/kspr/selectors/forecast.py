"""How many of the right labels a number of checks can be expected to keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from kspr.core.conformal import loose_pool
from kspr.errors import InputError
from kspr.selectors.checked import Guarantee, steps_of
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
    chance, checked = _chances(selection), selection.checked
    doubt = selection.doubt
    pool = loose_pool(doubt, selection.q_value if checked is None else checked.level, q)
    inside = doubt[pool]
    n = min(n, len(inside))
    kept: list[float] = []
    for seed in range(_PLAYED):
        rng = np.random.default_rng(seed)
        drawn = _drawn(len(inside), n, rng)
        wrong = rng.random(n) < chance(inside[drawn])
        steps = steps_of(inside, drawn, wrong, q, guarantee, confidence)
        keep = steps.of(inside) <= q
        # Answers decide on their own rows.
        keep[drawn] = False
        kept.append(np.sum(1 - chance(inside[keep])) + np.sum(~wrong))
    n_right = float(np.sum(1 - chance(doubt)))
    return min(1.0, float(np.mean(kept)) / max(n_right, 1e-9))


def _drawn(n_rows: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return `n` of the rows: those that ``rng.permutation(n_rows)`` puts first."""
    # The same shuffle of numbers that take half the memory.
    order = np.arange(n_rows, dtype=np.int32 if n_rows < 1 << 31 else np.int64)
    rng.shuffle(order)
    return order[:n].astype(np.int64)


def checks_needed(
    selection: Selection, q: float, guarantee: Guarantee, confidence: float, done: int = 0
) -> int | None:
    """Return about how many checks keep nine tenths of what the best cut at `q` would keep.

    More than `done`, which have not been enough. None if more than `MOST_CHECKS` are needed, or no
    cut keeps anything.
    """
    best = _best_recall(np.sort(_chances(selection)(selection.doubt)), q)
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


def _best_recall(ordered: np.ndarray, q: float) -> float | None:
    """Return the share of right labels below the loosest cut that meets `q`; None without one.

    `ordered` are the chances that labels are wrong, ascending. They rise with the doubt by which
    rows are ordered, so their own order is that of the rows.
    """
    wrong = np.cumsum(ordered)
    within = np.flatnonzero(wrong <= q * np.arange(1, len(ordered) + 1))
    if not within.size:
        return None
    last = within[-1]
    return float((last + 1 - wrong[last]) / (len(ordered) - wrong[-1]))


def _chances(selection: Selection) -> Callable[[np.ndarray], np.ndarray]:
    """Return how likely a label of some doubt is wrong, by the answers that are there."""
    if selection.control not in DOUBTING:
        raise InputError(
            "A forecast needs the chance that a label is wrong, which only control='transition' "
            f"estimates, got {selection.control!r}."
        )
    checked = selection.checked
    if checked is None or not checked.calibrate:
        return lambda doubt: doubt
    seen = checked.rows[checked.counted]
    expected = selection.doubt[seen].sum()
    found = np.sum(~checked.right[checked.counted])
    # One more on either side: no wrong label among a few checks is no proof of none. What the
    # fit did not expect may be anywhere.
    times, more = min(1.0, (found + 1) / (expected + 1)), max(0.0, found - expected) / len(seen)
    return lambda doubt: np.minimum(doubt * times + more, 1.0)
