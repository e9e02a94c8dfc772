"""What all kinds of noise share: checks of labels, rates and seeds, and weighted draws."""

from typing import Any

import numpy as np

from kspr.core.labels import Labels, as_label_array, encode_labels
from kspr.errors import InputError

__all__ = [
    "check_rate",
    "check_seed",
    "checked_labels",
    "coded",
    "draw_rows",
    "flip_classes",
    "following",
]


def checked_labels(y: Any) -> np.ndarray:
    """Return a column of labels, none of them missing."""
    labels = as_label_array(y)
    if not len(labels):
        raise InputError("y must be a column of labels, got none.")
    return np.asarray(encode_labels(labels).values)


def coded(y: Any) -> Labels:
    """Return the labels as codes; noise needs at least two classes."""
    labels = encode_labels(checked_labels(y))
    if len(labels.classes) < 2:
        raise InputError(f"Noise needs at least two classes, got {labels.classes[0]!r} alone.")
    return labels


def check_seed(seed: Any, name: str = "seed") -> int:
    """Return a seed that every generator takes: a whole number from 0 to 2**32 - 1."""
    # scikit-learn's generators take no larger one; one rule for all is easier to remember.
    if not isinstance(seed, int | np.integer) or not 0 <= seed < 2**32:
        raise InputError(f"{name} must be a whole number from 0 to {2**32 - 1}, got {seed!r}.")
    return int(seed)


def check_rate(rate: float) -> None:
    """Refuse a share of wrong labels outside of [0, 1)."""
    if not 0 <= rate < 1:
        raise InputError(f"rate must lie in [0, 1), got {rate}. Write 0.4 for 40 %.")


def following(n_classes: int) -> np.ndarray:
    """Return the next class of each class; the last is followed by the first."""
    return np.roll(np.arange(n_classes), -1)


def flip_classes(codes: np.ndarray, rate: float, target: np.ndarray, seed: int) -> np.ndarray:
    """Return codes of which the share `rate` of each class has become the class's `target`."""
    rng = np.random.default_rng(check_seed(seed))
    flipped = codes.copy()
    for source in np.flatnonzero(target != np.arange(len(target))):
        # By the codes as given: a row that has just become this class must not flip twice.
        members = rng.permutation(np.flatnonzero(codes == source))
        flipped[members[: round(rate * len(members))]] = target[source]
    return flipped


def draw_rows(weight: np.ndarray, wanted: int, rng: np.random.Generator) -> np.ndarray:
    """Draw `wanted` rows without replacement, by weight; never one of weight 0.

    The largest of log weight plus Gumbel noise are such a draw.
    """
    with np.errstate(divide="ignore"):
        key = np.log(weight) + rng.gumbel(size=len(weight))
    # Rows of weight 0 have the key -inf: they come last, and in only where others run out.
    drawn = np.argsort(-key, kind="stable")[:wanted]
    return np.asarray(drawn[weight[drawn] > 0])
