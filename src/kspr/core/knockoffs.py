"""Selection times of labels in closed form, and the class that comes next to a label.

With beta fixed from the other half, the problem of step ii falls apart into rows, and row
j's selection time is the magnitude of its own residual: no solver runs here.
"""

import numpy as np

from kspr.core.arrays import one_hot

__all__ = ["all_times", "closed_form_times", "most_confident"]


def most_confident(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the highest-scoring class of each row other than its label."""
    own = one_hot(labels, scores.shape[-1], bool)
    scores = scores if scores.dtype.kind == "f" else scores.astype(np.float64)
    # Log-probabilities may hold -inf; every other class still comes before the label.
    finite = np.maximum(scores, np.finfo(scores.dtype).min)
    return np.asarray(np.argmax(np.where(own, -np.inf, finite), axis=-1))


def closed_form_times(prediction: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return ``Z_j = |y_j - x_j beta|``, the norm of a row's residual: ``(..., rows)``.

    Computed in double precision, so that near-equal rows do not tie.
    """
    of_label = np.take_along_axis(prediction, labels[..., None], axis=-1)
    return np.asarray(np.sqrt(_squares(prediction, of_label))[..., 0])


def all_times(prediction: np.ndarray) -> np.ndarray:
    """Return the time that every class would have as the label: ``(rows, classes)``."""
    return np.asarray(np.sqrt(_squares(prediction, prediction)))


def _squares(prediction: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Return ``|e_k - p|^2`` for the classes k whose entries of `prediction` are `own`."""
    shown = prediction.astype(np.float64)
    # 1 + |p|^2 - 2 p_k needs one pass over the classes, whatever k is.
    size = np.sum(shown * shown, axis=-1, keepdims=True)
    # For a perfect fit rounding can leave it just below 0.
    return np.asarray(np.maximum(1.0 + size - 2.0 * own.astype(np.float64), 0.0))
