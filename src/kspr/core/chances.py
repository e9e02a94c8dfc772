"""From fitted values, and votes of neighbours, to chances: that a label is right, and of classes.

All of it goes row by row, so blocks of rows give what the whole would give. Only the temperature
of the softmax is common to all rows; a fixed sample of them sets it.

A linear fit draws straight borders between classes; the votes of neighbours, how often each label
is given to the nearest rows, know of others. Like the fit, these rows stand in the half that a row
is not in, so that a row's own label has no part in its votes.
"""

from dataclasses import dataclass

import numpy as np

from kspr.core.arrays import one_hot, row_blocks
from kspr.core.transition import Transition

__all__ = [
    "TEMPERATURES",
    "WIDTH",
    "Chances",
    "all_times",
    "calibration_rows",
    "closed_form_times",
    "count_votes",
    "most_confident",
    "with_votes",
]

_SOFTENING = 1.4
"""The fit is too confident about doubtful samples; a softer softmax orders them better."""
TEMPERATURES = tuple(0.0125 * 2 ** (step / 2) for step in range(-8, 13))
"""The more classes, the smaller the differences between fitted values, and the lower the best."""
_CALIBRATION_ROWS, _FEWER_ROWS = 5_000, 500
_CALIBRATION_VALUES = 1_000_000
"""Fitted values from which on fewer rows set the temperature: those of very many classes."""
_SMALLEST = 1e-30
WIDTH = 64
"""Components by which rows are compared; with 512 the order is no better, and takes four times as
long."""
_REFERENCES = 25_000
"""Rows of a half among which neighbours are looked for: the cost per row does not grow further."""
_WEIGHT = 0.5
"""What the log-odds of the votes count beside those of the fit, which has seen the same labels."""


def calibration_rows(n_rows: int, n_classes: int) -> np.ndarray:
    """Return the numbers of the rows that the temperature is chosen by."""
    wanted = min(_CALIBRATION_ROWS, max(_FEWER_ROWS, _CALIBRATION_VALUES // n_classes))
    return np.arange(0, n_rows, max(1, n_rows // wanted))


@dataclass(frozen=True)
class Chances:
    """What fitted values say about labels, given how labels go wrong."""

    noise: Transition
    temperature: float

    @classmethod
    def fit(cls, prediction: np.ndarray, label: np.ndarray, noise: Transition) -> "Chances":
        """Choose the temperature under which the given labels are most likely.

        `prediction` and `label` are of the `calibration_rows`.
        """
        # (rows, classes): the chance of the given label under each true class.
        columns = noise.columns(label, prediction.dtype)

        def log_likelihood(temperature: float) -> float:
            chance = np.sum(_softmax(prediction, temperature) * columns, axis=1)
            return float(np.mean(np.log(np.maximum(chance, 1e-12))))

        return cls(noise, max(TEMPERATURES, key=log_likelihood))

    def right_of(self, prediction: np.ndarray, label: np.ndarray) -> np.ndarray:
        """Return the chance that each given label is right, by Bayes' rule."""
        # A softer softmax than the likeliest one: it orders doubtful samples better.
        soft = _softmax(prediction, _SOFTENING * self.temperature)
        # A chance that is rounded to 0 would make a label wrong where no label is wrong.
        np.maximum(soft, _SMALLEST, out=soft)
        seen = np.sum(soft * self.noise.columns(label, soft.dtype), axis=1)
        own = soft[np.arange(len(label)), label] * self.noise.right[label].astype(soft.dtype)
        return np.asarray(own / seen, dtype=np.float64)


def _softmax(prediction: np.ndarray, temperature: float) -> np.ndarray:
    shown = prediction / temperature
    # In place: for many classes, new arrays would take longer than the arithmetic.
    shown -= shown.max(axis=1, keepdims=True)
    np.exp(shown, out=shown)
    shown /= shown.sum(axis=1, keepdims=True)
    return np.asarray(shown)


def count_votes(
    rows: np.ndarray,
    label: np.ndarray,
    half: np.ndarray,
    n_classes: int,
    k: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return how many of the `k` nearest rows in the other half have each label, as shares.

    `rows` are compared by their distance; the answer is ``(rows, classes)``.

    >>> rows = np.array([[0.0], [0.1], [5.0], [5.1]])
    >>> half, label = np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
    >>> count_votes(rows, label, half, 2, 1, np.random.default_rng(0)).tolist()
    [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]
    """
    from sklearn.neighbors import NearestNeighbors  # takes long to import, and few ask for it

    votes = np.zeros((len(rows), n_classes), dtype=np.float32)
    for side in (0, 1):
        asking, others = np.flatnonzero(half == side), np.flatnonzero(half != side)
        others = rng.permutation(others)[:_REFERENCES]
        # Trees do not help in so many dimensions.
        index = NearestNeighbors(n_neighbors=min(k, len(others)), algorithm="brute")
        index.fit(rows[others])
        for block in row_blocks(len(asking), len(others)):
            mine = asking[block]
            labels = label[others][index.kneighbors(rows[mine], return_distance=False)]
            place = np.arange(len(mine))[:, None] * n_classes + labels
            counts = np.bincount(place.ravel(), minlength=len(mine) * n_classes)
            votes[mine] = counts.reshape(-1, n_classes) / labels.shape[1]
    return votes


def with_votes(right: np.ndarray, votes: np.ndarray, noise: Transition, k: int) -> np.ndarray:
    """Return each class's chance to be right as the label, with the votes of `k` neighbours.

    `right` is that of the noise model. The votes are of labels, and some
    of these are wrong: the transition matrix tells which true classes they come from. Half of the
    log-odds that follow are added to those of the fit.
    """
    # From shares of labels to shares of classes, with one vote spread over all of these.
    share = np.maximum(noise.unmix(votes), 0.0) + 1.0 / k
    share /= share.sum(axis=1, keepdims=True)
    voted = share * noise.right / np.maximum(noise.mix(share), 1e-30)
    odds = _odds(right) * _odds(voted) ** _WEIGHT
    return np.asarray(odds / (1.0 + odds), dtype=right.dtype)


def _odds(chance: np.ndarray) -> np.ndarray:
    return np.asarray(np.maximum(chance, 1e-7) / np.maximum(1.0 - chance, 1e-7))


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
