"""Knockoff labels, the closed form of step ii, and the comparison statistics.

With beta fixed from the other half, the problem of step ii falls apart into rows, and row
j's selection time is the magnitude of its own residual: no solver runs here.
"""

from typing import Protocol

import numpy as np

from kspr.core.arrays import one_hot
from kspr.core.penalties import Penalty, group

__all__ = [
    "STATISTICS",
    "Statistic",
    "all_times",
    "asymmetric",
    "closed_form_times",
    "most_confident",
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


def most_confident(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the highest-scoring class of each row other than its label."""
    own = one_hot(labels, scores.shape[-1], bool)
    scores = scores if scores.dtype.kind == "f" else scores.astype(np.float64)
    # Log-probabilities may hold -inf; every other class still comes before the label.
    finite = np.maximum(scores, np.finfo(scores.dtype).min)
    return np.asarray(np.argmax(np.where(own, -np.inf, finite), axis=-1))


def closed_form_times(prediction: np.ndarray, labels: np.ndarray, penalty: Penalty) -> np.ndarray:
    """Return ``Z_j = |y_j - x_j beta|`` in the penalty's own norm: ``(pieces, rows)``.

    Computed in double precision, so that near-equal rows do not tie.
    """
    if penalty is group:
        own = np.take_along_axis(prediction, labels[..., None], axis=-1)
        return np.asarray(np.sqrt(_squares(prediction, own))[..., 0])
    residual = one_hot(labels, prediction.shape[-1], np.float64) - prediction.astype(np.float64)
    # Under the lasso a row is selected together with the first of its entries.
    return np.asarray(np.max(penalty(residual), axis=-1))


def all_times(prediction: np.ndarray, penalty: Penalty) -> np.ndarray:
    """Return the time that every class would have as the label: ``(rows, classes)``."""
    if penalty is group:
        return np.asarray(np.sqrt(_squares(prediction, prediction)))
    classes = range(prediction.shape[1])
    times = [closed_form_times(prediction, np.full(len(prediction), k), penalty) for k in classes]
    return np.stack(times, axis=1)


def _squares(prediction: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Return ``|e_k - p|^2`` for the classes k whose entries of `prediction` are `own`."""
    shown = prediction.astype(np.float64)
    # 1 + |p|^2 - 2 p_k needs one pass over the classes, whatever k is.
    size = np.sum(shown * shown, axis=-1, keepdims=True)
    # For a perfect fit rounding can leave it just below 0.
    return np.asarray(np.maximum(1.0 + size - 2.0 * own.astype(np.float64), 0.0))


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
