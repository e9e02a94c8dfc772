"""CIFAR-10 and CIFAR-100: class names in the order of their numbers, and the noise between them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kspr.core.labels import encode_labels
from kspr.core.noise._drawing import check_rate, flip_classes
from kspr.errors import InputError

__all__ = [
    "CIFAR10",
    "CIFAR100",
    "CIFAR100_COARSE",
    "SUPERCLASSES",
    "asymmetric",
    "asymmetric_cifar10",
    "asymmetric_cifar100",
]

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


def asymmetric(y: Any, rate: float, seed: int) -> np.ndarray:
    """Return CIFAR labels with noise between similar classes.

    CIFAR-10's where every label is one of its own; CIFAR-100's otherwise.
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


def _asymmetric(
    y: Any, rate: float, seed: int, names: Sequence[str], target: np.ndarray, dataset: str
) -> np.ndarray:
    labels = np.asarray(y)
    check_rate(rate)
    codes = _numbered(labels, names)
    if codes is None:
        raise InputError(
            f"{dataset}'s noise needs {dataset}'s labels: its class names, or numbers in "
            f"0..{len(names) - 1}."
        )
    flipped = flip_classes(codes, rate, target, seed)
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
