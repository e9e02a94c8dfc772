"""Levels that rows checked by a person give, whatever the noise is.

Conformal selection (Jin and Candes 2023) with "the label is wrong" as the hypothesis that a kept
row rejects. A pool of rows is fixed before anybody looks at a label, and the checked rows are drawn
from it at random. Then the checked rows and the others are exchangeable, and no assumption on how
labels go wrong is needed. `conformal_steps` hold on average over draws of checked rows;
`confidence_steps` and `anytime_steps`, which need more checks, hold except in a small share of
draws, and with `anywhere_limits` all cuts do at once. The proofs are in docs/theory.md.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from kspr.core.arrays import reachable
from kspr.core.shares import clopper_pearson_bounds

_LOOSER = 2.0
"""Level at which rows enter the pool, as a multiple of the level asked for."""
_LEAST_POOL = 1_000
"""Rows of least doubt that are in the pool even where no level reaches them."""
_CUTS = 200
"""Number of cuts that are tested, from tight to loose."""
_BETS = np.array([0.3, 0.6, 0.9])
"""Parts of the largest bet that are placed side by side: small ones survive wrong labels."""
_PLAYED = 4_000
"""Draws that are played through for `anywhere_limits`."""
_MOST_WRONG = 200
"""Checked wrong rows below a cut with a limit, at most; also no more than a quarter of the checks:
each further number makes the limits of all others larger."""
_ANYTIME_START = 0.4
"""Share of the pool at which the first cut of `anytime_steps` lies."""


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


def conformal_steps(
    doubt: np.ndarray, checked: np.ndarray, wrong: np.ndarray, limits: np.ndarray | None = None
) -> LevelSteps:
    """Return the smallest level at which each row of a pool is kept, by its doubt.

    `doubt` orders the pool, and must not depend on the answers. `checked` are the positions of the
    rows that were drawn at random and looked at, and `wrong` says which of their labels are wrong.

    With M rows of the pool left unchecked, n checked, V(t) of them wrong with a doubt of at most t,
    and R(t) unchecked rows up to t, a cut at t has the level ``M (1 + V(t)) / ((n + 1) R(t))``.
    The level of a row is the smallest over all cuts that keep it; checked rows get the level of
    their doubt. For any q chosen without looking at the answers, the mean share of wrong labels
    among the unchecked rows of level at most q is at most q.

    With `limits`, cuts have other levels: at most ``limits[v]`` unchecked rows are wrong up to a
    cut with v checked wrong rows; see `anywhere_limits`.

    >>> doubt = np.arange(10)
    >>> steps = conformal_steps(doubt, np.array([1, 8]), np.array([False, True]))
    >>> steps.of(doubt).round(3)
    array([0.381, 0.381, 0.381, 0.381, 0.381, 0.381, 0.381, 0.381, 0.667,
           0.667])
    """
    # Between two checked rows that are wrong the level of a cut only falls as more rows are kept:
    # so the last cut before each wrong row is as good as all of them.
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
    if limits is None:
        # Both "+ 1" count the row that is decided on among the checked ones, as a wrong one.
        estimate = size.sum() * (1 + n_wrong) / ((len(checked) + 1) * n_kept)
    else:
        estimate = np.minimum(limits[n_wrong], n_kept) / n_kept
    # A looser cut with a smaller estimate keeps this row as well.
    return LevelSteps(last[used], np.append(reachable(estimate), np.inf))


@cache
def anywhere_limits(n_rest: int, n_checked: int, confidence: float) -> np.ndarray:
    """Return how many unchecked rows can be wrong below every cut at once.

    `n_checked` rows were drawn at random, their number set beforehand, and `n_rest` are left. With
    the probability `confidence`, a cut below which v of the checked rows are wrong has at most
    ``limits[v]`` wrong ones among the unchecked rows, whichever cut it is: so it may be chosen
    after looking (Song, Jin and Candes 2026). The limits follow from the draw alone, which is
    played through here.

    >>> (anywhere_limits(1900, 100, 0.95)[:4] / 1900).round(2)
    array([0.05, 0.07, 0.09, 0.1 ])
    """
    from scipy.special import betaincc, betainccinv  # takes long to import

    k = min(_MOST_WRONG, -(-n_checked // 4))
    if not k:
        return np.full(n_checked + 1, n_rest)
    rng = np.random.default_rng(_STREAM)
    # Unchecked rows before the first, second, ... checked one, in any order of rows.
    gaps = rng.standard_exponential((_PLAYED, k))
    more = rng.standard_gamma(n_checked + 1 - k, (_PLAYED, 1))
    share = np.hstack([gaps, more])
    before = np.cumsum(rng.multinomial(n_rest, share / share.sum(axis=1, keepdims=True)), axis=1)
    place = np.arange(k)
    tail = betaincc(place + 1, n_checked - place, before[:, :k] / (n_rest + 1))
    # The tail that the smallest of all tails falls below with a chance of 1 - confidence.
    risk = np.sort(tail.min(axis=1))[int((1 - confidence) * (_PLAYED + 1)) - 1]
    limits = np.floor(betainccinv(place + 1, n_checked - place, risk) * (n_rest + 1) + 1e-9)
    return np.append(np.minimum(limits, n_rest), np.full(n_checked + 1 - k, n_rest)).astype(int)


# --- With a confidence ------------------------------------------------------------------------


def confidence_steps(
    doubt: np.ndarray, checked: np.ndarray, wrong: np.ndarray, q: float, confidence: float
) -> LevelSteps:
    """Return the smallest level at which each row of a pool is kept, by its doubt.

    `doubt` orders the pool. `checked` are positions in it, drawn at random, their number set
    beforehand; `wrong` says which of these labels are wrong. For any level, the share of wrong
    labels among the rows that it keeps is above the level in at most ``1 - confidence`` of the
    draws. Cuts are tested from tight to loose, the first where the checks can be expected to reach
    `q`; a level other than `q` holds as well, but may keep less than it could.

    >>> doubt, checked = np.arange(100), np.arange(0, 100, 2)
    >>> steps = confidence_steps(doubt, checked, np.zeros(50) > 0, 0.1, 0.9)
    >>> steps.of(doubt).max().round(2)
    np.float64(0.05)
    """
    ordered = np.sort(doubt)
    cuts = _cuts(ordered, _start(len(checked), q, confidence))
    n_below = np.searchsorted(ordered, cuts, side="right")
    seen = np.sort(doubt[checked])
    bad = np.sort(doubt[checked[wrong]])
    n_seen = np.searchsorted(seen, cuts, side="right")
    n_wrong = np.searchsorted(bad, cuts, side="right")
    return _steps(cuts, _most_wrong(n_below, n_seen, n_wrong, 1 - confidence) / n_below)


def anytime_steps(
    doubt: np.ndarray, checked: np.ndarray, wrong: np.ndarray, confidence: float
) -> LevelSteps:
    """Return levels as `confidence_steps` does, which hold at whatever check a person stops.

    `checked` must be in the order in which the rows were drawn and looked at. For any level, the
    chance that the share of wrong labels is above it at any time, with any number of checks, is at
    most ``1 - confidence``. That costs more checks.

    >>> steps = anytime_steps(np.arange(100), np.arange(0, 100, 2), np.zeros(50) > 0, 0.9)
    >>> steps.of(np.arange(100)).max().round(2)
    np.float64(0.11)
    """
    ordered = np.sort(doubt)
    cuts = _cuts(ordered, _ANYTIME_START)
    n_below = np.searchsorted(ordered, cuts, side="right")
    inside = doubt[checked] <= cuts[:, None]
    hit = inside & wrong
    # What was seen before each check: a bet may use nothing else.
    before = np.cumsum(inside, axis=1) - inside
    wrong_before = np.cumsum(hit, axis=1) - hit
    left = np.maximum(n_below[:, None] - before, 1)

    def capital(level: np.ndarray) -> np.ndarray:
        """Return the largest log-capital over time of betting that less than `level` is wrong."""
        # Share of wrong ones among the rows left, if `level` of all rows below the cut are wrong.
        share = np.clip((level * n_below)[:, None] - wrong_before, 0.0, left - 1e-9) / left
        games = [
            np.cumsum(
                # A wrong label costs the part of the capital that was bet; a right one pays.
                np.where(inside, np.where(hit, np.log1p(-b), np.log1p(b * share / (1 - share))), 0),
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


def most_checked_wrong(n_rows: int, n_checked: int, n_wrong: int, confidence: float) -> int:
    """Return how many checked wrong rows a cut may have if `n_wrong` of the others may be wrong.

    `n_checked` of `n_rows` were drawn at random. Take the loosest cut with at most that many
    checked wrong rows: more than `n_wrong` of the unchecked rows below it are wrong with a chance
    of at most ``1 - confidence``. -1 if that cannot be promised of any cut.

    >>> most_checked_wrong(2000, 100, 100, 0.95), most_checked_wrong(2000, 30, 100, 0.95)
    (1, -1)
    """
    count = np.arange(n_checked)
    limit = _most_wrong(
        np.full(n_checked, n_rows), np.full(n_checked, n_checked), count, 1 - confidence
    )
    return int(np.searchsorted(limit - count, n_wrong, side="right")) - 1


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
