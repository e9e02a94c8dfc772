"""Levels that checked rows give with a confidence: at most q, except in a small share of draws.

`conformal` promises the mean over draws instead, and needs fewer checks. Both take a pool of rows
that was fixed beforehand and rows that were drawn from it at random; the proofs are in
docs/theory.md.
"""

import numpy as np

from kspr.core.conformal import LevelSteps
from kspr.core.intervals import clopper_pearson_bounds

__all__ = ["anytime_levels", "anytime_steps", "confidence_levels", "confidence_steps"]

_CUTS = 200
"""Number of cuts that are tested, from tight to loose."""
_BETS = np.array([0.3, 0.6, 0.9])
"""Parts of the largest bet that are placed side by side: small ones survive wrong labels."""
_ANYTIME_START = 0.4
"""Share of the pool at which the first cut of `anytime_levels` lies."""


def confidence_levels(
    doubt: np.ndarray, checked: np.ndarray, wrong: np.ndarray, q: float, confidence: float
) -> np.ndarray:
    """Return the smallest level at which each row of a pool is kept.

    `doubt` orders the pool. `checked` are positions in it, drawn at random, their number set
    beforehand; `wrong` says which of these labels are wrong. For any level, the share of wrong
    labels among the rows that it keeps is above the level in at most ``1 - confidence`` of the
    draws. Cuts are tested from tight to loose, the first where the checks can be expected to reach
    `q`; a level other than `q` holds as well, but may keep less than it could.

    >>> levels = confidence_levels(np.arange(100), np.arange(0, 100, 2), np.zeros(50) > 0, 0.1, 0.9)
    >>> levels.max().round(2)
    np.float64(0.05)
    """
    return confidence_steps(doubt, checked, wrong, q, confidence).of(doubt)


def confidence_steps(
    doubt: np.ndarray, checked: np.ndarray, wrong: np.ndarray, q: float, confidence: float
) -> LevelSteps:
    """Return the levels of `confidence_levels` as a function of the doubt."""
    ordered = np.sort(doubt)
    cuts = _cuts(ordered, _start(len(checked), q, confidence))
    n_below = np.searchsorted(ordered, cuts, side="right")
    seen = np.sort(doubt[checked])
    bad = np.sort(doubt[checked[wrong]])
    n_seen = np.searchsorted(seen, cuts, side="right")
    n_wrong = np.searchsorted(bad, cuts, side="right")
    return _steps(cuts, _most_wrong(n_below, n_seen, n_wrong, 1 - confidence) / n_below)


def anytime_levels(
    doubt: np.ndarray, checked: np.ndarray, wrong: np.ndarray, confidence: float
) -> np.ndarray:
    """Return levels as `confidence_levels` does, which hold at whatever check a person stops.

    `checked` must be in the order in which the rows were drawn and looked at. For any level, the
    chance that the share of wrong labels is above it at any time, with any number of checks, is at
    most ``1 - confidence``. That costs more checks.

    >>> levels = anytime_levels(np.arange(100), np.arange(0, 100, 2), np.zeros(50) > 0, 0.9)
    >>> levels.max().round(2)
    np.float64(0.11)
    """
    return anytime_steps(doubt, checked, wrong, confidence).of(doubt)


def anytime_steps(
    doubt: np.ndarray, checked: np.ndarray, wrong: np.ndarray, confidence: float
) -> LevelSteps:
    """Return the levels of `anytime_levels` as a function of the doubt."""
    ordered = np.sort(doubt)
    cuts = _cuts(ordered, _ANYTIME_START)
    n_below = np.searchsorted(ordered, cuts, side="right")
    inside = doubt[checked] <= cuts[:, None]
    found = inside & wrong
    # What was seen before each check: a bet may use nothing else.
    before = np.cumsum(inside, axis=1) - inside
    wrong_before = np.cumsum(found, axis=1) - found
    left = np.maximum(n_below[:, None] - before, 1)

    def capital(level: np.ndarray) -> np.ndarray:
        """Return the largest log-capital over time of betting that less than `level` is wrong."""
        # Share of wrong ones among the rows left, if `level` of all rows below the cut are wrong.
        share = np.clip((level * n_below)[:, None] - wrong_before, 0.0, left - 1e-9) / left
        games = [
            np.cumsum(
                # A wrong label costs the part of the capital that was bet; a right one pays.
                np.where(
                    inside, np.where(found, np.log1p(-b), np.log1p(b * share / (1 - share))), 0
                ),
                axis=1,
            )
            for b in _BETS
        ]
        mixed = np.logaddexp.reduce(games, axis=0) - np.log(len(_BETS))
        return np.asarray(mixed.max(axis=1, initial=0.0))

    low, high = np.zeros(len(cuts)), np.ones(len(cuts))
    for _ in range(20):
        # The capital grows with the level: a false claim is the easier to bet against the larger.
        middle = (low + high) / 2
        enough = capital(middle) >= -np.log(1 - confidence)
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return _steps(cuts, high)


def _start(n_checked: int, q: float, confidence: float) -> float:
    """Return the share of the pool at which the first cut lies.

    A third of the checks, or as many as are needed if none of them is wrong: a tighter cut could
    not pass, and a looser one would fail where only the tightest rows are right.
    """
    needed = int(np.ceil(np.log(1 - confidence) / np.log1p(-q)))
    for n_wrong in range(1, n_checked):
        more = needed
        while clopper_pearson_bounds(n_wrong, more, confidence)[1] > q:
            more += 1
        if 3 * more > n_checked:
            break
        needed = more
    # A quarter more, because the number of checks below a cut is left to chance.
    return min(1.0, 1.25 * needed / max(n_checked, 1))


def _cuts(ordered: np.ndarray, start: float) -> np.ndarray:
    """Return the doubts at which cuts are tested; they depend on no answer and no draw."""
    sizes = np.linspace(max(1, start * len(ordered)), len(ordered), _CUTS).astype(np.int64)
    return np.asarray(np.unique(ordered[sizes - 1]))


def _most_wrong(
    n_below: np.ndarray, n_seen: np.ndarray, n_wrong: np.ndarray, risk: float
) -> np.ndarray:
    """Return the largest number of wrong rows below each cut that the checks do not exclude.

    Exact: the checks below a cut are a draw without replacement from the rows below it.
    """
    from scipy.stats import hypergeom  # takes half a second to import

    low, high = n_wrong.copy(), n_below - (n_seen - n_wrong)
    while (low < high).any():
        middle = (low + high + 1) // 2
        possible = hypergeom.cdf(n_wrong, n_below, middle, n_seen) > risk
        low, high = np.where(possible, middle, low), np.where(possible, high, middle - 1)
    return np.asarray(low)


def _steps(cuts: np.ndarray, bound: np.ndarray) -> LevelSteps:
    """Return the levels, given the upper bound of the share of wrong ones at each cut.

    A sequence of tests ends at its first failure, so a cut has the largest bound up to it.
    """
    return LevelSteps(cuts, np.append(np.maximum.accumulate(bound), np.inf))
