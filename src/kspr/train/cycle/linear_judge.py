"""Logistic regression that sees the given labels through a transition matrix.

Where most labels are wrong, a linear model with the right penalty knows more than a network: it has
few ways to fit wrong labels. What it says of a row comes from the other rows alone.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax

from kspr.core.labels import codes_in
from kspr.train.cycle.soft_labels import SoftLabels, likely_noise

__all__ = ["linear_probabilities", "linear_soft_labels", "parts_of"]

_PENALTIES = (1e-3, 3e-3, 1e-2, 3e-2)
"""Tried on one part of the rows, for features of mean square 1."""
_WEAK_PENALTIES = (*_PENALTIES, 1e-1)
_PARTS = 5
_STEPS = 40
_RIGHT = 0.5
"""Share of labels that a fit takes to be right while the noise is not known. On 4,000 images of
CIFAR-10, a second fit with the noise that was found gave worse soft labels under symmetric noise,
and better ones at Asy. 40 %."""


class _Rows(NamedTuple):
    """Rows to fit or to ask: features, and the chance of their label given each true class."""

    X: np.ndarray
    chance: np.ndarray

    def of(self, mask: np.ndarray) -> "_Rows":
        """Return the rows in `mask`."""
        return _Rows(self.X[mask], self.chance[mask])


def linear_probabilities(
    X: np.ndarray,
    label: np.ndarray,
    transition: np.ndarray,
    part: np.ndarray,
    penalties: Sequence[float] = _PENALTIES,
) -> np.ndarray:
    """Return class probabilities ``(rows, classes)`` of each row by a fit to the other parts.

    `label` holds columns of `transition` (chance of each label, given the true class in its row).
    `part` numbers the part of each row; rows that are copies of each other must share one. The
    penalty is the one under which the labels of a part are most likely.
    """
    shown = _scaled(X)
    rows = _Rows(shown, transition.T[label].astype(np.float32))
    numbers = np.unique(part)
    found = np.empty((len(X), len(transition)))
    asked = part == numbers[0]
    fits = [_fit(rows.of(~asked), penalty) for penalty in penalties]
    best = int(np.argmax([_likelihood(rows.of(asked), fit) for fit in fits]))
    found[asked] = _predict(shown[asked], fits[best])
    for number in numbers[1:]:
        asked = part == number
        # From zero: the fit before has seen the labels of this part.
        found[asked] = _predict(shown[asked], _fit(rows.of(~asked), penalties[best]))
    return found


def linear_soft_labels(X: np.ndarray, label: np.ndarray, part: np.ndarray, k: int) -> SoftLabels:
    """Return soft labels of `k` classes, where the noise is not known: it is the likeliest one.

    `label` holds whole numbers below `k`; `part` is as in `linear_probabilities`.
    """
    # A class that no row is labelled with is taken to be the true one of none.
    present = np.unique(label)
    codes = codes_in(present, label, "label")
    matrix = np.full((len(present),) * 2, (1 - _RIGHT) / max(len(present) - 1, 1))
    np.fill_diagonal(matrix, _RIGHT)
    said = linear_probabilities(X, codes, matrix, part, _WEAK_PENALTIES)
    found = likely_noise([said], matrix, codes)
    chance, prior, whole = np.zeros((len(X), k)), np.zeros((len(X), k)), np.eye(k)
    chance[:, present], prior[:, present] = found.chance, found.prior
    whole[np.ix_(present, present)] = found.transition
    return SoftLabels(chance, prior, whole)


def parts_of(first: np.ndarray, seed: int) -> np.ndarray:
    """Return a random part of every row; rows with the same entry in `first` share one."""
    order = np.random.default_rng([seed, _PARTS]).permutation(len(first))
    return np.asarray(order[first] % _PARTS)


def _scaled(X: np.ndarray) -> np.ndarray:
    """Return centred features of mean square 1; all are divided by the same number."""
    # One number for all: directions of small variance tell least, and are to count least.
    centred = X.astype(np.float32) - X.mean(axis=0, dtype=np.float64).astype(np.float32)
    return np.asarray(centred / max(float(np.sqrt(np.mean(centred**2))), 1e-12))


def _fit(rows: _Rows, penalty: float) -> np.ndarray:
    """Return coefficients ``(features + 1, classes)``, the intercepts last."""
    n, d = rows.X.shape
    n_classes = rows.chance.shape[1]

    def loss(values: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the penalised mean negative log-likelihood, and its gradient."""
        fit = values.reshape(d + 1, n_classes).astype(np.float32)
        prior = _predict(rows.X, fit)
        joint = prior * rows.chance
        seen = np.maximum(joint.sum(axis=1, keepdims=True), 1e-12)
        change = (prior - joint / seen) / n
        slopes = rows.X.T @ change + 2 * penalty * fit[:-1]
        gradient = np.concatenate([slopes, change.sum(axis=0, keepdims=True)])
        value = -np.mean(np.log(seen), dtype=np.float64) + penalty * np.sum(fit[:-1] ** 2)
        return float(value), gradient.ravel().astype(np.float64)

    start = np.zeros((d + 1) * n_classes)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": _STEPS}).x
    return np.asarray(found.reshape(d + 1, n_classes), dtype=np.float32)


def _predict(X: np.ndarray, fit: np.ndarray) -> np.ndarray:
    return np.asarray(softmax(X @ fit[:-1] + fit[-1], axis=1))


def _likelihood(rows: _Rows, fit: np.ndarray) -> float:
    """Return the mean log-likelihood of the labels of `rows`."""
    seen = np.sum(_predict(rows.X, fit) * rows.chance, axis=1, dtype=np.float64)
    return float(np.mean(np.log(np.maximum(seen, 1e-12))))
