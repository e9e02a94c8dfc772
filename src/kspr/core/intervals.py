"""Shares that were counted: Wilson's and Clopper and Pearson's intervals, Fisher's test of two."""

import numpy as np
from scipy.special import betaincinv

__all__ = [
    "Z95",
    "clopper_pearson_bounds",
    "clopper_pearson_interval",
    "fisher_exact",
    "wilson_interval",
]

Z95 = 1.96
"""Standard errors on either side of an estimate in a two-sided interval of 95 %."""


def wilson_interval(counts: np.ndarray, total: np.ndarray, z: float = Z95) -> np.ndarray:
    """Return Wilson's two-sided interval for ``counts / total``, low and high along a first axis.

    `z` is its half width in standard errors. It works elementwise, and stays inside [0, 1].

    >>> low, high = wilson_interval(np.array([0, 5]), np.array([10, 10]))
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.0, 0.237], [0.278, 0.763])
    """
    # Without observations: the interval of 0 in 1, where 0 / 0 would give nan.
    total = np.maximum(total, 1.0)
    share = counts / total
    scale = 1.0 + z**2 / total
    middle = (share + z**2 / (2 * total)) / scale
    reach = z * np.sqrt(share * (1 - share) / total + z**2 / (4 * total**2)) / scale
    return np.stack([np.maximum(0.0, middle - reach), np.minimum(1.0, middle + reach)])


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
