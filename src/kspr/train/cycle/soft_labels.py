"""Soft labels: the chance of each class to be the true one, given a row and its label."""

from typing import NamedTuple

import numpy as np

from kspr.core.labels import codes_in
from kspr.core.probabilities import calibrate

__all__ = ["SoftLabels", "soft_labels", "with_given_labels"]


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

    The probabilities are calibrated and the noise is estimated as `ProbabilitySelector` does it.
    """
    # A class that no row is labelled with cannot be calibrated, and is the true one of none.
    present = np.unique(label)
    shown = probabilities[:, present].astype(np.float64)
    shown /= np.maximum(shown.sum(axis=1, keepdims=True), 1e-30)
    found = calibrate(shown, codes_in(present, label, "label"))
    n_classes = probabilities.shape[1]
    prior, transition = np.zeros(probabilities.shape), np.eye(n_classes)
    prior[:, present] = found.prior
    transition[np.ix_(present, present)] = found.transition.matrix
    return SoftLabels(with_given_labels(prior, transition, label), prior, transition)


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
