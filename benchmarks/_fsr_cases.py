"""The cases of `fsr.py`: common noise, noise that nothing was tuned on, people, small sets."""

from collections.abc import Callable
from functools import cache

import numpy as np
from sklearn import datasets

from _common import SMOKE
from _data import (
    Case,
    Sample,
    cifar10,
    confused_texts,
    human_labels,
    ordered_classes,
    similar_texts,
)
from kspr.noise import asymmetric_cifar10, circular, instance_dependent, symmetric

__all__ = ["CASES"]


@cache
def cifar() -> tuple[np.ndarray, np.ndarray]:
    """Return the first 128 features and the true labels of CIFAR-10."""
    X, y, _, _ = cifar10()
    # They are principal components. Logistic regression on all 512 would take hours.
    return np.ascontiguousarray(X[:, :128]), y


def _labelled(kind: Callable[[np.ndarray, int], np.ndarray]) -> Callable[[int], Sample]:
    return lambda seed: Sample(cifar()[0], kind(cifar()[1], seed), cifar()[1])


def _swamped(seed: int) -> Sample:
    """Return labels of which three in ten of every other class have become class 3."""
    X, y = cifar()
    flipped = (np.random.default_rng(seed).random(len(y)) < 0.3) & (y != 3)
    return Sample(X, np.where(flipped, 3, y), y)


def _long_tailed(seed: int) -> Sample:
    """Return classes whose sizes fall from 5,000 to 50, with Sym. 20 %."""
    X, y = cifar()
    rng = np.random.default_rng(seed)
    sizes = (5000 * 100 ** (-np.arange(10) / 9)).astype(int)
    rows = np.concatenate([rng.permutation(np.flatnonzero(y == k))[: sizes[k]] for k in range(10)])
    rng.shuffle(rows)
    return Sample(X[rows], symmetric(y[rows], 0.2, seed), y[rows])


def _duplicated(seed: int) -> Sample:
    """Return Sym. 20 %, and 20 samples repeated a hundred times each with one wrong label."""
    X, y = cifar()
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(y), 20, replace=False)
    copies = np.repeat(chosen, 100)
    wrong = np.repeat((y[chosen] + rng.integers(1, 10, 20)) % 10, 100)
    jitter = 1e-3 * rng.standard_normal((len(copies), X.shape[1]), dtype=np.float32)
    return Sample(
        np.concatenate([X, X[copies] + jitter]),
        np.concatenate([symmetric(y, 0.2, seed), wrong]),
        np.concatenate([y, y[copies]]),
    )


def _toy(
    load: Callable[..., tuple[np.ndarray, np.ndarray]],
    noise: Callable[[np.ndarray, float, int], np.ndarray],
    rate: float,
) -> Callable[[int], Sample]:
    def make(seed: int) -> Sample:
        X, y = load(return_X_y=True)
        X = (X - X.mean(0)) / np.maximum(X.std(0), 1e-9)
        return Sample(X.astype(np.float32), noise(y, rate, seed), y)

    return make


def _human(column: str) -> Callable[[int], Sample]:
    """Return what people answered; the seed moves only the selection's own draws."""
    return lambda _: Sample(cifar10().X, *human_labels(column))


SYMMETRIC = {f"Sym. {r:.0%}": lambda y, s, r=r: symmetric(y, r, s) for r in (0.2, 0.4, 0.6, 0.8)}
ASYMMETRIC = {
    f"Asy. {r:.0%}": lambda y, s, r=r: asymmetric_cifar10(y, r, s) for r in (0.2, 0.3, 0.4)
}
TEXTS = ("banking77", "clinc150")
UNTUNED = {
    "circular 30%": _labelled(lambda y, s: circular(y, 0.3, s)),
    "instance 20%": _labelled(lambda y, s: instance_dependent(cifar()[0], y, 0.2, s)),
    "instance 40%": _labelled(lambda y, s: instance_dependent(cifar()[0], y, 0.4, s)),
    "one class swamped": _swamped,
    "shares 1:100, Sym. 20%": _long_tailed,
    "duplicates, Sym. 20%": _duplicated,
}
SMALL = {
    "digits": datasets.load_digits,
    "breast cancer": datasets.load_breast_cancer,
    "wine": datasets.load_wine,
    "iris": datasets.load_iris,
}
CASES = [
    *(
        Case("CIFAR-10", noise, _labelled(kind), 3, "table")
        for noise, kind in (SYMMETRIC | ASYMMETRIC).items()
    ),
    Case("CIFAR-10", "no noise", _labelled(lambda y, _: y), 1, "untuned"),
    *(Case("CIFAR-10", noise, make, 3, "untuned") for noise, make in UNTUNED.items()),
    Case("table", "ordered classes", lambda s: Sample(*ordered_classes(s)), 3, "untuned"),
    *(
        Case(n, "similar 15%", lambda s, n=n: Sample(*similar_texts(n, 0.15, s)), 3, "untuned")
        for n in TEXTS
    ),
    *(Case("CIFAR-10N", name, _human(name), 3, "people") for name in ("aggre", "random1")),
    *(
        Case(n, "confused 20%", lambda s, n=n: Sample(*confused_texts(n, 0.2, s)), 3, "people")
        for n in TEXTS
    ),
    *(
        Case(name, f"{kind} {rate:.0%}", _toy(load, noise, rate), 10, "small")
        for name, load in SMALL.items()
        for kind, noise in (("Sym.", symmetric), ("circular", circular))
        for rate in ((0.2, 0.4) if name == "digits" else (0.2,))
        # With two classes both are the same.
        if not (name == "breast cancer" and kind == "circular")
    ),
]
if SMOKE:
    # Those that the page compares with targets, one of each other table, and those of people.
    last = {case.group: case for case in CASES}
    CASES = [
        case
        for case in CASES
        if case.group == "table" or case.data == "CIFAR-10N" or case is last[case.group]
    ]
