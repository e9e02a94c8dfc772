"""Known noise on known labels: by rate and seed, with exact counts."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kspr.core.cifar import CIFAR10, CIFAR100, SUPERCLASSES
from kspr.errors import InputError

__all__ = [
    "NOISES",
    "add_noise",
    "asymmetric_cifar10",
    "asymmetric_cifar100",
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
    given = np.asarray(y)
    _check_rate(rate)
    # Wide enough for the partners: an array of three-letter labels would cut "horse" to "hor".
    labels = given.astype(np.result_type(given, *map(np.asarray, pairs.values())))
    rng = np.random.default_rng(seed)
    for source, target in pairs.items():
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
    classes, codes = _coded(y)
    _check_rate(rate)
    following = np.roll(np.arange(len(classes)), -1)
    return np.asarray(classes[_flip(codes, rate, following, seed)])


def asymmetric_cifar10(y: Any, rate: float, seed: int) -> np.ndarray:
    """Return CIFAR-10 labels of which the share `rate` of five classes has become a similar one.

    truck -> automobile, bird -> airplane, deer -> horse, cat <-> dog. Labels are the numbers
    0..9 or the class names.

    >>> list(asymmetric_cifar10(["truck", "truck", "ship"], 0.5, seed=0)).count("automobile")
    1
    """
    target = np.arange(len(CIFAR10))
    for source, similar in _SIMILAR.items():
        target[CIFAR10.index(source)] = CIFAR10.index(similar)
    return _asymmetric(y, rate, seed, CIFAR10, target, "CIFAR-10")


def asymmetric_cifar100(y: Any, rate: float, seed: int) -> np.ndarray:
    """Return CIFAR-100 labels of which the share `rate` of each class is the next of its kind.

    The next class of the same super-class, and after the fifth the first. Labels are the numbers
    0..99 or the class names.

    >>> list(asymmetric_cifar100(["whale", "whale"], 0.5, seed=0)).count("beaver")
    1
    """
    target = np.arange(len(CIFAR100))
    for members in SUPERCLASSES.values():
        own = [CIFAR100.index(name) for name in members]
        target[own] = np.roll(own, -1)
    return _asymmetric(y, rate, seed, CIFAR100, target, "CIFAR-100")


def instance_dependent(X: Any, y: Any, rate: float, seed: int) -> np.ndarray:
    """Return labels that depend on the features: which are wrong by sample, and wrong how by X.

    Each sample draws its own flip rate from a normal distribution around `rate` that is cut to
    (0, 1), and the direction of its flip from the softmax of its standardised features times a
    random matrix of its class. Exactly ``round(rate * len(y))`` labels are wrong: those flip
    that come first when every sample's odds are raised or lowered by one common factor.
    """
    classes, codes = _coded(y)
    _check_rate(rate)
    features = _features(X, len(codes))
    rng, *class_rngs = np.random.default_rng(_seed(seed)).spawn(1 + len(classes))
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


def asymmetric(y: Any, rate: float, seed: int) -> np.ndarray:
    """Return CIFAR labels with noise between similar classes.

    CIFAR-10's where every label is one of its own; CIFAR-100's otherwise.
    """
    labels = np.asarray(y)
    if _numbered(labels, CIFAR10) is not None:
        return asymmetric_cifar10(labels, rate, seed)
    if _numbered(labels, CIFAR100) is not None:
        return asymmetric_cifar100(labels, rate, seed)
    raise InputError(
        "Asymmetric noise is defined for the classes of CIFAR-10 and CIFAR-100, by name or "
        "number; for other labels use the kind circular, or pair with pairs of your own."
    )


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
    """Return a copy of the labels `y` with noise of a kind in `NOISES`.

    `X` are the features that instance-dependent noise needs; `pairs` say which class becomes
    which in the kind `pair`.
    """
    if kind not in NOISES:
        raise InputError(f"There is no noise of the kind {kind!r}; there are {', '.join(NOISES)}.")
    if pairs is not None and kind != "pair":
        raise InputError(f"pairs belong to the kind pair, not to {kind}.")
    if kind == "instance" and X is None:
        raise InputError("Instance-dependent noise needs features; pass X.")
    labels = _checked(y)
    _check_rate(rate)
    _seed(seed)
    if pairs is not None:
        return _paired(labels, rate, pairs, seed)
    if kind == "symmetric":
        _coded(labels)
    return NOISES[kind](labels, rate, seed, X)


_SIMILAR = {
    "truck": "automobile",
    "bird": "airplane",
    "deer": "horse",
    "cat": "dog",
    "dog": "cat",
}


def _paired(labels: np.ndarray, rate: float, pairs: Mapping[Any, Any], seed: int) -> np.ndarray:
    absent = [source for source in pairs if not np.any(labels == source)]
    if absent:
        raise InputError(f"pairs name the class {absent[0]!r}, which y does not have.")
    return pair_flip(labels, rate, pairs, seed)


def _asymmetric(
    y: Any, rate: float, seed: int, names: Sequence[str], target: np.ndarray, dataset: str
) -> np.ndarray:
    labels = np.asarray(y)
    _check_rate(rate)
    codes = _numbered(labels, names)
    if codes is None:
        raise InputError(
            f"{dataset}'s noise needs {dataset}'s labels: its class names, or numbers in "
            f"0..{len(names) - 1}."
        )
    flipped = _flip(codes, rate, target, seed)
    if labels.dtype.kind in "iuf":
        return flipped.astype(labels.dtype)
    shown = names if str(labels[0]) in names else [str(i) for i in range(len(names))]
    return np.asarray(np.asarray(shown)[flipped])


def _numbered(labels: np.ndarray, names: Sequence[str]) -> np.ndarray | None:
    """Return the class numbers of labels that are all names, or all numbers; None if not."""
    if labels.ndim != 1 or len(labels) == 0:
        return None
    if labels.dtype.kind in "iuf":
        fits = (labels >= 0) & (labels < len(names)) & (labels == np.floor(labels))
        return labels.astype(np.intp) if fits.all() else None
    values, inverse = np.unique(labels.astype(str), return_inverse=True)
    for known in (list(names), [str(i) for i in range(len(names))]):
        if set(values) <= set(known):
            return np.asarray([known.index(value) for value in values], np.intp)[inverse]
    return None


def _flip(codes: np.ndarray, rate: float, target: np.ndarray, seed: int) -> np.ndarray:
    """Return codes of which the share `rate` of each class has become the class's target."""
    rng = np.random.default_rng(_seed(seed))
    flipped = codes.copy()
    for source in np.flatnonzero(target != np.arange(len(target))):
        members = rng.permutation(np.flatnonzero(codes == source))
        flipped[members[: round(rate * len(members))]] = target[source]
    return flipped


def _by_own_rate(n: int, rate: float, rng: np.random.Generator) -> np.ndarray:
    """Return ``round(rate * n)`` rows, each the likelier the higher the rate it draws."""
    from scipy.special import logit, ndtr, ndtri

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
    if not np.isfinite(variance).all():
        raise InputError("X has values that are missing or infinite.")
    constant = variance <= 1e-12 * mean**2
    return mean, np.sqrt(np.where(constant, 1.0, variance))


def _checked(y: Any) -> np.ndarray:
    labels = np.asarray(y)
    if labels.ndim != 1 or len(labels) == 0:
        raise InputError(f"y must be a column of labels, got the shape {labels.shape}.")
    # A missing value is the one thing that differs from itself; None is the other way to say it.
    if np.any(labels != labels) or (labels.dtype == object and any(v is None for v in labels)):
        raise InputError("y has missing labels; leave these rows out.")
    return labels


def _coded(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes in sorted order, and each label's place among them."""
    try:
        classes, codes = np.unique(_checked(y), return_inverse=True)
    except TypeError as error:
        raise InputError(
            "y has labels that cannot be sorted together, such as numbers and missing ones."
        ) from error
    if len(classes) < 2:
        raise InputError(f"Noise needs at least two classes, got {classes[0]!r} alone.")
    return classes, codes


def _seed(seed: int) -> int:
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"seed must be a whole number from 0 up, got {seed!r}.")
    return int(seed)


def _check_rate(rate: float) -> None:
    if not 0 <= rate < 1:
        raise InputError(f"rate must lie in [0, 1), got {rate}. Write 0.4 for 40 %.")
