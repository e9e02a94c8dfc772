"""Knockoff labels, their selection times under any penalty, and the comparison statistics."""

from typing import Protocol

import numpy as np

from kspr.core.arrays import one_hot
from kspr.core.paper.selection_times import Penalty, group
from kspr.core.regression import closed_form_times

__all__ = [
    "STATISTICS",
    "Statistic",
    "asymmetric",
    "penalised_times",
    "random_labels",
    "symmetric_max",
    "symmetric_min",
]


def random_labels(labels: np.ndarray, n_classes: int, draws: np.ndarray) -> np.ndarray:
    """Return, for each label, one of the ``n_classes - 1`` others with equal chance.

    `draws` are uniform on [0, 1), one per label: the caller owns the randomness, so a sample's
    knockoff does not depend on what it is processed with.
    """
    # A step of 1 to c - 1 around the circle of classes never comes back to the label.
    step = 1 + (draws * (n_classes - 1)).astype(np.int64)
    return np.asarray((labels + step) % n_classes)


def penalised_times(prediction: np.ndarray, labels: np.ndarray, penalty: Penalty) -> np.ndarray:
    """Return ``Z_j = |y_j - x_j beta|`` in the penalty's own norm: ``(pieces, rows)``."""
    if penalty is group:
        return closed_form_times(prediction, labels)
    residual = one_hot(labels, prediction.shape[-1], np.float64) - prediction.astype(np.float64)
    # Under the lasso a row is selected together with the first of its entries.
    return np.asarray(np.max(penalty(residual), axis=-1))


class Statistic(Protocol):
    """Turn the times of label and knockoff into W: negative where the label is ahead."""

    def __call__(self, Z: np.ndarray, Z_tilde: np.ndarray) -> np.ndarray:
        """Return W, elementwise."""
        ...


def asymmetric(Z: np.ndarray, Z_tilde: np.ndarray) -> np.ndarray:
    """Return ``Z sign(Z - Z~)``, the paper's Eq. W: only the label's own time is a size."""
    return np.asarray(Z * np.sign(Z - Z_tilde))


def symmetric_max(Z: np.ndarray, Z_tilde: np.ndarray) -> np.ndarray:
    """Return ``max(Z, Z~) sign(Z - Z~)``, the classical knockoff statistic."""
    return np.asarray(np.maximum(Z, Z_tilde) * np.sign(Z - Z_tilde))


def symmetric_min(Z: np.ndarray, Z_tilde: np.ndarray) -> np.ndarray:
    """Return ``min(Z, Z~) sign(Z - Z~)``: symmetric, and small for clean samples."""
    return np.asarray(np.minimum(Z, Z_tilde) * np.sign(Z - Z_tilde))


STATISTICS: dict[str, Statistic] = {
    "asymmetric": asymmetric,
    "symmetric_max": symmetric_max,
    "symmetric_min": symmetric_min,
}
