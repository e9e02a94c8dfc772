"""Known noise on known labels: a kind, a rate and a seed give exact counts of wrong labels."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kspr.core.labels import encode_labels
from kspr.core.noise._drawing import (
    check_rate,
    check_seed,
    checked_labels,
    coded,
    flip_classes,
    following,
)
from kspr.core.noise.cifar import asymmetric, asymmetric_cifar10, asymmetric_cifar100
from kspr.errors import InputError

__all__ = [
    "NOISES",
    "add_noise",
    "circular",
    "instance_dependent",
    "pair_flip",
    "symmetric",
]

_SPREAD = 0.1
"""Standard deviation of the flip rates of single samples, as in the literature."""
_CHUNK = 8192
"""Rows of features that are looked at together."""


def symmetric(y: Any, rate: float, seed: int) -> np.ndarray:
    """Return labels of which the share `rate` is replaced by another class, each with equal chance.

    Exactly ``round(rate * len(y))`` labels are wrong.

    >>> y = np.repeat([0, 1, 2], 10)
    >>> int((symmetric(y, 0.4, seed=0) != y).sum())
    12
    """
    check_rate(rate)
    labels = encode_labels(y)
    classes, codes = labels.classes, labels.codes.copy()
    rng = np.random.default_rng(check_seed(seed))
    flipped = rng.permutation(len(codes))[: round(rate * len(codes))]
    # With one class the range would be empty; a step of 1 then leads back to that class.
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
    given = np.asarray(y)
    check_rate(rate)
    # Wide enough for the partners: an array of three-letter labels would cut "horse" to "hor".
    labels = given.astype(np.result_type(given, *map(np.asarray, pairs.values())))
    rng = np.random.default_rng(check_seed(seed))
    for source, target in pairs.items():
        # By the labels as given: a cat that has become a dog must not go on to the partner of dog.
        members = rng.permutation(np.flatnonzero(given == source))
        labels[members[: round(rate * len(members))]] = target
    return labels


def circular(y: Any, rate: float, seed: int) -> np.ndarray:
    """Return labels of which the share `rate` of each class has become the next class.

    Classes are in sorted order, and the last is followed by the first.

    >>> y = np.array(["a"] * 5 + ["b"] * 5 + ["c"] * 5)
    >>> "".join(np.sort(circular(y, 0.2, seed=0)[y == "c"]))
    'acccc'
    """
    labels = coded(y)
    check_rate(rate)
    target = following(len(labels.classes))
    return np.asarray(labels.classes[flip_classes(labels.codes, rate, target, seed)])


def instance_dependent(X: Any, y: Any, rate: float, seed: int) -> np.ndarray:
    """Return labels of which the share `rate` is wrong, to classes that the features choose.

    Each sample draws its own flip rate from a normal distribution around `rate` that is cut to
    (0, 1), and the direction of its flip from the softmax of its standardised features times a
    random matrix of its class. Exactly ``round(rate * len(y))`` labels are wrong: every
    sample's odds of a flip are raised or lowered by one common factor until the count is met.
    """
    labels = coded(y)
    classes, codes = labels.classes, labels.codes
    check_rate(rate)
    features = _features(X, len(codes))
    rng, *class_rngs = np.random.default_rng(check_seed(seed)).spawn(1 + len(classes))
    flipped = _by_own_rate(len(codes), rate, rng)
    mean, scale = _moments(features)
    noisy = codes.copy()
    for own, class_rng in enumerate(class_rngs):
        rows = flipped[codes[flipped] == own]
        W = class_rng.standard_normal((features.shape[1], len(classes)))
        for start in range(0, len(rows), _CHUNK):
            part = rows[start : start + _CHUNK]
            scores = ((features[part] - mean) / scale) @ W
            scores[:, own] = -np.inf
            # The largest of score plus Gumbel noise is a draw from the softmax of the scores.
            noisy[part] = np.argmax(scores + class_rng.gumbel(size=scores.shape), axis=1)
    return np.asarray(classes[noisy])


NOISES: dict[str, Callable[[np.ndarray, float, int, Any], np.ndarray]] = {
    "symmetric": lambda y, rate, seed, _: symmetric(y, rate, seed),
    "asymmetric": lambda y, rate, seed, _: asymmetric(y, rate, seed),
    "asymmetric-cifar10": lambda y, rate, seed, _: asymmetric_cifar10(y, rate, seed),
    "asymmetric-cifar100": lambda y, rate, seed, _: asymmetric_cifar100(y, rate, seed),
    "pair": lambda y, rate, seed, _: circular(y, rate, seed),
    "circular": lambda y, rate, seed, _: circular(y, rate, seed),
    "instance": lambda y, rate, seed, X: instance_dependent(X, y, rate, seed),
}
"""Each kind of noise by its name: from labels, rate, seed and features to noisy labels.

What the literature calls pair flip goes to the next class, so `pair` without pairs is `circular`.
"""


def add_noise(
    kind: str,
    y: Any,
    rate: float,
    seed: int,
    X: Any = None,
    pairs: Mapping[Any, Any] | None = None,
) -> np.ndarray:
    """Return a copy of the labels `y` with a known share of wrong ones.

    Parameters
    ----------
    kind
        A name in `NOISES`.
    y
        Right labels.
    rate
        Share of wrong labels, in [0, 1).
    seed
        Seed of the draw.
    X
        Features, which the kind ``"instance"`` needs.
    pairs
        For the kind ``"pair"``: which class becomes which.
    """
    if kind not in NOISES:
        raise InputError(f"There is no noise of the kind {kind!r}; there are {', '.join(NOISES)}.")
    if pairs is not None and kind != "pair":
        raise InputError(f"pairs goes with kind='pair', got kind={kind!r}.")
    if kind == "instance" and X is None:
        raise InputError("kind='instance' needs the features X, got None.")
    labels = checked_labels(y)
    check_rate(rate)
    check_seed(seed)
    if pairs is not None:
        return _paired(labels, rate, pairs, seed)
    if kind == "symmetric":
        # Only for its check: `symmetric` returns the labels of a single class unchanged.
        coded(labels)
    return NOISES[kind](labels, rate, seed, X)


def _paired(labels: np.ndarray, rate: float, pairs: Mapping[Any, Any], seed: int) -> np.ndarray:
    absent = [source for source in pairs if not np.any(labels == source)]
    if absent:
        raise InputError(f"pairs name the class {absent[0]!r}, which y does not have.")
    return pair_flip(labels, rate, pairs, seed)


def _by_own_rate(n: int, rate: float, rng: np.random.Generator) -> np.ndarray:
    """Return ``round(rate * n)`` rows, each the likelier the higher the rate it draws."""
    from scipy.special import logit, ndtr, ndtri

    # A normal distribution cut to (0, 1), drawn by the inverse of its distribution function.
    low, high = ndtr((0 - rate) / _SPREAD), ndtr((1 - rate) / _SPREAD)
    own = rate + _SPREAD * ndtri(rng.uniform(low, high, n))
    # A row flips on its own where logit(rate) + logistic noise > 0; ranking moves that zero to
    # where the count is exact.
    rank = logit(np.clip(own, 1e-12, 1 - 1e-12)) + rng.logistic(size=n)
    return np.sort(np.argsort(-rank, kind="stable")[: round(rate * n)])


def _features(X: Any, n: int) -> np.ndarray:
    features = np.asarray(X)
    if features.ndim != 2 or features.dtype.kind not in "fiub":
        raise InputError("X must be a table of numbers, one row for each label.")
    if len(features) != n:
        raise InputError(f"X has {len(features)} rows but y has {n} labels.")
    return features


def _moments(features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of each column, by chunks; 1 for a constant column."""
    total = np.zeros(features.shape[1])
    square = np.zeros(features.shape[1])
    for start in range(0, len(features), _CHUNK):
        part = features[start : start + _CHUNK].astype(np.float64)
        total += part.sum(axis=0)
        square += (part**2).sum(axis=0)
    mean = total / len(features)
    variance = square / len(features) - mean**2
    # One test per column is enough: NaN and inf survive in the sums.
    if not np.isfinite(variance).all():
        raise InputError("X has values that are missing or infinite.")
    # A difference of two large sums: a constant column may be left with rounding error.
    constant = variance <= 1e-12 * mean**2
    return mean, np.sqrt(np.where(constant, 1.0, variance))
