"""Noise that is put on known labels on purpose, so that a method can be measured on it.

Each kind takes labels, a rate and a seed, and returns a copy with an exact number of wrong labels:

>>> from kspr.noise import symmetric
>>> int((symmetric([0, 1, 2] * 10, rate=0.4, seed=0) != [0, 1, 2] * 10).sum())
12

Also here: the class names of CIFAR, between which the noise of the literature is defined.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kspr.core.labels import Labels, as_label_array, encode_labels
from kspr.errors import InputError, check_seed

__all__ = [
    "CIFAR10",
    "CIFAR100",
    "CIFAR100_COARSE",
    "NOISES",
    "SUPERCLASSES",
    "add_noise",
    "asymmetric",
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

CIFAR10 = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)

SUPERCLASSES: dict[str, tuple[str, str, str, str, str]] = {
    "aquatic_mammals": ("beaver", "dolphin", "otter", "seal", "whale"),
    "fish": ("aquarium_fish", "flatfish", "ray", "shark", "trout"),
    "flowers": ("orchid", "poppy", "rose", "sunflower", "tulip"),
    "food_containers": ("bottle", "bowl", "can", "cup", "plate"),
    "fruit_and_vegetables": ("apple", "mushroom", "orange", "pear", "sweet_pepper"),
    "household_electrical_devices": ("clock", "keyboard", "lamp", "telephone", "television"),
    "household_furniture": ("bed", "chair", "couch", "table", "wardrobe"),
    "insects": ("bee", "beetle", "butterfly", "caterpillar", "cockroach"),
    "large_carnivores": ("bear", "leopard", "lion", "tiger", "wolf"),
    "large_man-made_outdoor_things": ("bridge", "castle", "house", "road", "skyscraper"),
    "large_natural_outdoor_scenes": ("cloud", "forest", "mountain", "plain", "sea"),
    "large_omnivores_and_herbivores": ("camel", "cattle", "chimpanzee", "elephant", "kangaroo"),
    "medium_mammals": ("fox", "porcupine", "possum", "raccoon", "skunk"),
    "non-insect_invertebrates": ("crab", "lobster", "snail", "spider", "worm"),
    "people": ("baby", "boy", "girl", "man", "woman"),
    "reptiles": ("crocodile", "dinosaur", "lizard", "snake", "turtle"),
    "small_mammals": ("hamster", "mouse", "rabbit", "shrew", "squirrel"),
    "trees": ("maple_tree", "oak_tree", "palm_tree", "pine_tree", "willow_tree"),
    "vehicles_1": ("bicycle", "bus", "motorcycle", "pickup_truck", "train"),
    "vehicles_2": ("lawn_mower", "rocket", "streetcar", "tank", "tractor"),
}
"""CIFAR-100's super-classes, each with its five classes."""

CIFAR100_COARSE = tuple(SUPERCLASSES)
# CIFAR-100 numbers its classes in alphabetical order.
CIFAR100 = tuple(sorted(name for members in SUPERCLASSES.values() for name in members))

_SIMILAR = {
    "truck": "automobile",
    "bird": "airplane",
    "deer": "horse",
    "cat": "dog",
    "dog": "cat",
}
"""CIFAR-10's classes that are easily taken for another, as the literature pairs them."""


def symmetric(y: Any, rate: float, seed: int) -> np.ndarray:
    """Return labels of which the share `rate` is replaced by another class, each with equal chance.

    Exactly ``round(rate * len(y))`` labels are wrong.

    >>> y = np.repeat([0, 1, 2], 10)
    >>> int((symmetric(y, 0.4, seed=0) != y).sum())
    12
    """
    _check_rate(rate)
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
    _check_rate(rate)
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
    labels = _coded(y)
    _check_rate(rate)
    target = np.roll(np.arange(len(labels.classes)), -1)
    return np.asarray(labels.classes[_flip_classes(labels.codes, rate, target, seed)])


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
        codes = [CIFAR100.index(name) for name in members]
        target[codes] = np.roll(codes, -1)
    return _asymmetric(y, rate, seed, CIFAR100, target, "CIFAR-100")


def asymmetric(y: Any, rate: float, seed: int) -> np.ndarray:
    """Return CIFAR labels with noise between similar classes.

    The noise of CIFAR-10 where every label is one of its classes; else that of CIFAR-100.
    """
    labels = np.asarray(y)
    # CIFAR-10 first: the numbers 0 to 9 would fit CIFAR-100 as well.
    if _numbered(labels, CIFAR10) is not None:
        return asymmetric_cifar10(labels, rate, seed)
    if _numbered(labels, CIFAR100) is not None:
        return asymmetric_cifar100(labels, rate, seed)
    raise InputError(
        "Asymmetric noise is defined for the classes of CIFAR-10 and CIFAR-100, by name or "
        "number; for other labels use the kind circular, or pair with pairs of your own."
    )


def instance_dependent(X: Any, y: Any, rate: float, seed: int) -> np.ndarray:
    """Return labels of which the share `rate` is wrong, to classes that the features choose.

    Each sample draws its own flip rate from a normal distribution around `rate` that is cut to
    (0, 1), and the direction of its flip from the softmax of its standardised features times a
    random matrix of its class. Exactly ``round(rate * len(y))`` labels are wrong: every
    sample's odds of a flip are raised or lowered by one common factor until the count is met.
    """
    labels = _coded(y)
    classes, codes = labels.classes, labels.codes
    _check_rate(rate)
    features = _features(X, len(codes))
    rng, *class_rngs = np.random.default_rng(check_seed(seed)).spawn(1 + len(classes))
    flipped = _by_own_rate(len(codes), rate, rng)
    mean, scale = _moments(features)
    noisy = codes.copy()
    for true, class_rng in enumerate(class_rngs):
        rows = flipped[codes[flipped] == true]
        W = class_rng.standard_normal((features.shape[1], len(classes)))
        for start in range(0, len(rows), _CHUNK):
            part = rows[start : start + _CHUNK]
            scores = ((features[part] - mean) / scale) @ W
            scores[:, true] = -np.inf
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
    labels = _checked_labels(y)
    _check_rate(rate)
    check_seed(seed)
    if pairs is not None:
        return _paired(labels, rate, pairs, seed)
    if kind == "symmetric":
        # Only for its check: `symmetric` returns the labels of a single class unchanged.
        _coded(labels)
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
    chance = rate + _SPREAD * ndtri(rng.uniform(low, high, n))
    # A row flips on its own where logit(rate) + logistic noise > 0; ranking moves that zero to
    # where the count is exact.
    rank = logit(np.clip(chance, 1e-12, 1 - 1e-12)) + rng.logistic(size=n)
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
    flipped = _flip_classes(codes, rate, target, seed)
    if labels.dtype.kind in "iuf":
        return flipped.astype(labels.dtype)
    # Numbers that came as text go back as text.
    shown = names if str(labels[0]) in names else [str(i) for i in range(len(names))]
    return np.asarray(np.asarray(shown)[flipped])


def _numbered(labels: np.ndarray, names: Sequence[str]) -> np.ndarray | None:
    """Return the class numbers of labels that are all names, or all numbers; None if not."""
    if labels.ndim != 1 or len(labels) == 0:
        return None
    if labels.dtype.kind in "iuf":
        fits = (labels >= 0) & (labels < len(names)) & (labels == np.floor(labels))
        return labels.astype(np.intp) if fits.all() else None
    texts = encode_labels(labels.astype(str))
    for known in (list(names), [str(i) for i in range(len(names))]):
        if set(texts.classes) <= set(known):
            number = np.asarray([known.index(name) for name in texts.classes], np.intp)
            return np.asarray(number[texts.codes])
    return None


def _checked_labels(y: Any) -> np.ndarray:
    """Return a column of labels, none of them missing."""
    labels = as_label_array(y)
    if not len(labels):
        raise InputError("y must be a column of labels, got none.")
    return np.asarray(encode_labels(labels).values)


def _coded(y: Any) -> Labels:
    """Return the labels as codes; noise needs at least two classes."""
    labels = encode_labels(_checked_labels(y))
    if len(labels.classes) < 2:
        raise InputError(f"Noise needs at least two classes, got {labels.classes[0]!r} alone.")
    return labels


def _check_rate(rate: float) -> None:
    """Refuse a share of wrong labels outside of [0, 1)."""
    if not 0 <= rate < 1:
        raise InputError(f"rate must lie in [0, 1), got {rate}. Write 0.4 for 40 %.")


def _flip_classes(codes: np.ndarray, rate: float, target: np.ndarray, seed: int) -> np.ndarray:
    """Return codes of which the share `rate` of each class has become the class's `target`."""
    rng = np.random.default_rng(check_seed(seed))
    flipped = codes.copy()
    for source in np.flatnonzero(target != np.arange(len(target))):
        # By the codes as given: a row that has just become this class must not flip twice.
        members = rng.permutation(np.flatnonzero(codes == source))
        flipped[members[: round(rate * len(members))]] = target[source]
    return flipped
