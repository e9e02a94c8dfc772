"""Known noise on known labels: by rate and seed, with exact counts."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from kspr.errors import InputError

__all__ = ["pair_flip", "symmetric"]


def symmetric(y: Any, rate: float, seed: int) -> np.ndarray:
    """Return labels of which the share `rate` is replaced by another class, each with equal chance.

    Exactly ``round(rate * len(y))`` labels are wrong.

    >>> y = np.repeat([0, 1, 2], 10)
    >>> int((symmetric(y, 0.4, seed=0) != y).sum())
    12
    """
    labels = np.asarray(y)
    _check_rate(rate)
    classes, codes = np.unique(labels, return_inverse=True)
    rng = np.random.default_rng(seed)
    flipped = rng.permutation(len(codes))[: round(rate * len(codes))]
    step = rng.integers(1, max(2, len(classes)), len(flipped))
    codes[flipped] = (codes[flipped] + step) % len(classes)
    return np.asarray(classes[codes])


def pair_flip(y: Any, rate: float, pairs: Mapping[Any, Any], seed: int) -> np.ndarray:
    """Return labels of which the share `rate` of each class in `pairs` has become its partner.

    >>> y = np.array(["cat"] * 10 + ["dog"] * 10)
    >>> noisy = pair_flip(y, 0.3, {"cat": "dog"}, seed=0)
    >>> int((noisy == "dog").sum())
    13
    """
    labels = np.asarray(y).copy()
    _check_rate(rate)
    rng = np.random.default_rng(seed)
    for source, target in pairs.items():
        members = rng.permutation(np.flatnonzero(np.asarray(y) == source))
        labels[members[: round(rate * len(members))]] = target
    return labels


def _check_rate(rate: float) -> None:
    if not 0 <= rate < 1:
        raise InputError(f"rate must lie in [0, 1), got {rate}. Write 0.4 for 40 %.")
