"""Shares that were counted, with their intervals: alone, or with the help of a model's chances.

Prediction-powered inference: the model says how likely each label is wrong, for all rows; a random
sample of checked rows says how far the model is off. Their difference is averaged and added, so
that the estimate is right whatever the model is worth, and surer the better it is. Intervals are
those of Clopper and Pearson for as many checks as would have given the same variance (Korn and
Graubard 1998), because a normal interval is too narrow where few rows are wrong. Their coverage is
measured, not proved: docs/error-rate.md.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv

_FEW = 10.0
"""Wrong (or right) checked rows at which the model has half of its weight: with fewer, how much it
explains cannot be told."""
_LEAST = 5
"""Checked rows from which on the model is used at all."""


def clopper_pearson_bounds(n_hit: float, n: float, confidence: float) -> tuple[float, float]:
    """Return Clopper and Pearson's exact bounds for a share of `n_hit` in `n`, each one-sided.

    The true share is above the first with probability `confidence`, and below the second with
    the same. Without observations they are 0 and 1.

    >>> low, high = clopper_pearson_bounds(0, 59, 0.95)
    >>> round(low, 3), round(high, 3)
    (0.0, 0.05)
    """
    if n == 0:
        return 0.0, 1.0
    # With no hit, or only hits, one parameter is 0 and the beta distribution has no quantiles.
    low = float(betaincinv(n_hit, n - n_hit + 1, 1 - confidence)) if n_hit else 0.0
    high = float(betaincinv(n_hit + 1, n - n_hit, confidence)) if n_hit < n else 1.0
    return low, high


def clopper_pearson_interval(
    n_hit: float, n: float, confidence: float = 0.95
) -> tuple[float, float]:
    """Return Clopper and Pearson's exact two-sided interval for a share of `n_hit` in `n`.

    >>> low, high = clopper_pearson_interval(0, 59)
    >>> round(low, 3), round(high, 3)
    (0.0, 0.061)
    """
    return clopper_pearson_bounds(n_hit, n, 1 - (1 - confidence) / 2)


def fisher_exact(n_hit: int, n: int, n_hit_before: int, n_before: int) -> float:
    """Return the chance of at least `n_hit` in `n` if the share is no larger than before.

    Fisher's exact test of two counted shares, one-sided: small for a share that has grown. It is
    never too small, whatever the numbers are.

    >>> round(fisher_exact(9, 20, 1, 20), 4)
    0.0042
    """
    from scipy.stats import hypergeom  # takes half a second to import

    # Without observations nothing has grown; the distribution is not defined.
    if n == 0:
        return 1.0
    return float(hypergeom.sf(n_hit - 1, n + n_before, n_hit + n_hit_before, n))


@dataclass(frozen=True)
class Estimate:
    """A share, and an interval of 95 %."""

    value: float
    low: float
    high: float


def plain_share(n_wrong: int, n: int) -> Estimate:
    """Return the share of wrong ones among `n` checked rows alone, with its exact interval.

    Without checked rows the interval is from 0 to 1, and the value is nan.
    """
    low, high = clopper_pearson_interval(n_wrong, n)
    return Estimate(n_wrong / n if n else float("nan"), low, high)


def assisted_share(wrong: np.ndarray, chance: np.ndarray, mean_chance: float) -> Estimate:
    """Return the share of wrong labels among all rows that `wrong` is a random sample of.

    `wrong` says which of the checked labels are wrong, `chance` how likely the model thought that,
    and `mean_chance` is the mean of these chances over all rows.

    >>> wrong = np.arange(100) < 30
    >>> blind = assisted_share(wrong, np.full(100, 0.2), 0.2)
    >>> helped = assisted_share(wrong, np.where(wrong, 0.8, 0.1), 0.31)
    >>> blind.high - blind.low > helped.high - helped.low
    True
    """
    n, n_wrong = len(wrong), int(np.sum(wrong))
    fewest = min(n_wrong, n - n_wrong)
    if n < _LEAST or not fewest or np.ptp(chance) == 0:
        return plain_share(n_wrong, n)
    slope = float(np.cov(wrong, chance)[0, 1] / np.var(chance, ddof=1))
    # A model that is worse than none is left out.
    weight = max(0.0, slope) * fewest / (fewest + _FEW)
    surprise = wrong - weight * chance
    value = n_wrong / n + weight * (mean_chance - float(chance.mean()))
    # Not beyond half a wrong row: the interval below needs a share inside of 0 and 1.
    value = float(np.clip(value, 0.5 / n, 1 - 0.5 / n))
    # Two numbers are estimated from the sample, the mean and the weight.
    left = float(np.var(surprise) * n / (n - 2) / np.var(wrong, ddof=1))
    worth = n / min(1.0, left)
    return Estimate(value, *clopper_pearson_interval(value * worth, worth))


def combined(
    function: Callable[[float, float], float], first: Estimate, second: Estimate
) -> Estimate:
    """Return a function of two independent estimates, with an interval.

    Each limit lies as far from the value as the limits of both estimates move it, squared and added
    (Zou and Donner 2008).

    >>> combined(lambda a, b: a - b, Estimate(0.5, 0.1, 0.8), Estimate(0.2, 0.2, 0.2))
    Estimate(value=0.3, low=-0.1, high=0.6)
    """
    value = function(first.value, second.value)
    moved = np.array(
        [
            [function(end, second.value) - value for end in (first.low, first.high)],
            [function(first.value, end) - value for end in (second.low, second.high)],
        ]
    )
    down = np.sqrt(np.sum(np.minimum(moved.min(axis=1), 0.0) ** 2))
    up = np.sqrt(np.sum(np.maximum(moved.max(axis=1), 0.0) ** 2))
    return Estimate(value, round(float(value - down), 12), round(float(value + up), 12))
