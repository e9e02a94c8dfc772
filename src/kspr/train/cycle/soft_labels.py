"""Soft labels: the chance of each class to be the true one, given a row and its label."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax

from kspr.core.labels import codes_in
from kspr.core.probabilities import calibrate

__all__ = ["SoftLabels", "soft_labels", "with_given_labels"]

_MOST_VALUES = 20_000_000
"""Probabilities from which on a part of the rows is enough to calibrate by."""


class SoftLabels(NamedTuple):
    """Chances of the true class, and what they were computed from."""

    chance: np.ndarray
    """Chance of each class to be the true one: ``(rows, classes)``."""
    prior: np.ndarray
    """The same before the given label is considered: calibrated probabilities."""
    transition: np.ndarray
    """Chance of each label (column) given the true class (row)."""


def soft_labels(probabilities: np.ndarray, label: np.ndarray) -> SoftLabels:
    """Return soft labels from class probabilities that have not seen the given labels.

    The noise is estimated as `ProbabilitySelector` does it. The probabilities are calibrated as it
    does it, and again by all rows.
    """
    # A class that no row is labelled with cannot be calibrated, and is the true one of none.
    present = np.unique(label)
    shown = probabilities[:, present].astype(np.float64)
    shown /= np.maximum(shown.sum(axis=1, keepdims=True), 1e-30)
    codes = codes_in(present, label, "label")
    found = calibrate(shown, codes)
    prior, transition = np.zeros(probabilities.shape), np.eye(probabilities.shape[1])
    prior[:, present] = _calibrated(found.prior, found.transition.matrix, codes)
    transition[np.ix_(present, present)] = found.transition.matrix
    return SoftLabels(with_given_labels(prior, transition, label), prior, transition)


def _calibrated(prior: np.ndarray, transition: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Return `prior` with the slope and class offsets under which the labels are most likely.

    Under Sym. 80 % a few thousand rows leave the share of a class unsure by half of it, and
    networks that learn from the soft labels make such an error larger.
    """
    n_classes = prior.shape[1]
    logs = np.log(np.maximum(prior, 1e-30))
    # Evenly spaced: files are often sorted by class.
    some = np.linspace(0, len(label) - 1, min(len(label), _MOST_VALUES // n_classes)).astype(int)
    shown, columns = logs[some], transition.T[label[some]]

    def loss(values: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the mean negative log-likelihood, and its gradient."""
        chance = softmax(np.exp(values[0]) * shown + values[1:], axis=1)
        joint = chance * columns
        seen = np.maximum(joint.sum(axis=1), 1e-12)
        change = joint / seen[:, None] - chance
        slope = np.exp(values[0]) * np.mean(np.sum(change * shown, axis=1))
        return -float(np.mean(np.log(seen))), -np.concatenate([[slope], change.mean(axis=0)])

    start = np.zeros(1 + n_classes)
    best = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 50}).x
    return np.asarray(softmax(np.exp(best[0]) * logs + best[1:], axis=1))


def with_given_labels(prior: np.ndarray, transition: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Return the chances of the true class by Bayes' rule, from `prior` and the given labels.

    >>> prior, transition = np.array([[0.5, 0.5]]), np.array([[0.9, 0.1], [0.3, 0.7]])
    >>> with_given_labels(prior, transition, np.array([0]))
    array([[0.75, 0.25]])
    """
    joint = prior * transition.T[label]
    total = joint.sum(axis=1, keepdims=True)
    # A label that the matrix rules out for every likely class leaves only the look of the row.
    return np.asarray(np.divide(joint, total, out=prior.copy(), where=total > 0))
