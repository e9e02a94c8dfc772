"""Class probabilities of a user's own model: anchors, calibration, and the doubt of each label.

A model may be too sure or not sure enough, may have learned the noise with the labels, and may
round to 0 and 1. So only the order of its probabilities chooses the anchors, and a temperature and
one offset per class are fitted to the given labels. Arrays are NumPy's.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax

from kspr.core.transition import Transition, estimate_transition

__all__ = ["Calibrated", "calibrate", "count_anchors_evenly", "log_odds", "memorised_share"]

_ANCHOR_SHARE = 0.15
"""Share of a class that serves as anchors: fewer are purer, more are surer. Of seven settings tried
on CIFAR-10 and digits; with 0.06 the FSR under asymmetric noise was further above q."""
_LEAST_ANCHORS = 30
"""Per class, unless that were more than a fifth of it."""
_TEMPERATURES = (0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.5, 5.0, 10.0, 20.0, 40.0)
_CALIBRATION_ROWS = 5_000
_STREAM = 0x70726F62
"""Keeps this draw apart from a user's own `default_rng(0)`, which may have chosen wrong labels."""
_SMALLEST = 1e-30
"""No probability counts as less than this: its logarithm must be finite."""


@dataclass(frozen=True)
class Calibrated:
    """What probabilities say once the noise in the labels is accounted for."""

    transition: Transition
    prior: np.ndarray
    """Chance of each class to be the true one, before the label is seen: ``(rows, classes)``."""
    right: np.ndarray
    """Chance that each class, were it the label, would be right."""
    best: np.ndarray
    """The most likely true class of each row, its label considered."""
    best_chance: np.ndarray
    """Chance that `best` is the true class."""


def calibrate(probabilities: np.ndarray, label: np.ndarray) -> Calibrated:
    """Return the noise, the calibrated probabilities, and the chance that labels are right.

    `probabilities` must come from a model that has not seen the label of the row that they are of.
    """
    logs = _logs(probabilities)
    transition = estimate_transition(count_anchors_evenly(log_odds(logs), label))
    # Anchors without a wrong label do not prove that there is none, and with a chance of 0 no label
    # could be doubted: all rows would tie.
    doubt = 1.0 / (transition.counts.sum() + 2.0)
    matrix = (1.0 - doubt) * transition.matrix + doubt / len(transition.matrix)
    slope, offset = _scaling(logs, matrix, label)
    prior = np.asarray(softmax(slope * logs + offset, axis=1))
    # Bayes: P(class k | label k) = P(class k) T[k, k] / P(label k).
    right = prior * np.diag(matrix) / np.maximum(prior @ matrix, 1e-12)
    # What the model says of the row and the label it was given, together.
    joint = prior * matrix.T[label]
    chance = joint.max(axis=1) / np.maximum(joint.sum(axis=1), 1e-300)
    return Calibrated(transition, prior, right, joint.argmax(axis=1), chance)


def _logs(probabilities: np.ndarray) -> np.ndarray:
    shown = np.asarray(probabilities, dtype=np.float64)
    # A rounded 0 stands for something below the smallest number that was not rounded away.
    floor = max(_SMALLEST, float(np.min(shown, where=shown > 0, initial=1.0)) / 2)
    return np.asarray(np.log(np.maximum(shown, floor)))


def log_odds(logs: np.ndarray) -> np.ndarray:
    """Return the log-odds of each class against all others, from log-probabilities.

    The others are added up, never subtracted from 1: where a probability is rounded to 1, they
    still tell how sure it is.
    """
    rows, top = np.arange(len(logs)), logs.argmax(axis=1)
    parts = np.exp(logs - logs.max(axis=1, keepdims=True))
    others = parts.sum(axis=1, keepdims=True) - parts
    parts[rows, top] = 0.0
    others[rows, top] = parts.sum(axis=1)
    return np.asarray(logs - logs.max(axis=1, keepdims=True) - np.log(np.maximum(others, 1e-300)))


def count_anchors_evenly(odds: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Count the labels of the rows with the highest odds of each class: ``(class, label)``.

    Rows that tie at the cut share the places that are left, so their order does not matter.

    >>> count_anchors_evenly(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.array([0, 1, 1]))
    array([[0.5, 0.5],
           [0. , 1. ]])
    """
    n, n_classes = odds.shape
    sizes = np.bincount(label, minlength=n_classes)
    counts = np.zeros((n_classes, n_classes))
    for k, size in enumerate(sizes):
        few = min(_LEAST_ANCHORS, int(np.ceil(size / 5)))
        wanted = max(few, round(_ANCHOR_SHARE * size))
        column = np.ascontiguousarray(odds[:, k])
        cut = np.partition(column, n - wanted)[n - wanted]
        above, level = column > cut, column == cut
        share = (wanted - above.sum()) / level.sum()
        for rows, weight in ((above, 1.0), (level, share)):
            counts[k] += weight * np.bincount(label[rows], minlength=n_classes)
    return counts


def _scaling(logs: np.ndarray, matrix: np.ndarray, label: np.ndarray) -> tuple[float, np.ndarray]:
    """Return slope and offsets of the softmax under which the given labels are most likely.

    The labels are seen through the transition matrix, so a model that doubts right labels only
    because it has learned the noise becomes surer.
    """
    # At random: every tenth row of labels that repeat after ten would be of one class.
    rows = np.random.default_rng(_STREAM).permutation(len(label))[:_CALIBRATION_ROWS]
    shown, columns = logs[rows], matrix.T[label[rows]]

    def loss(values: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the mean negative log-likelihood, and its gradient."""
        slope, offset = np.exp(values[0]), values[1:]
        prior = softmax(slope * shown + offset, axis=1)
        joint = prior * columns
        chance = np.maximum(joint.sum(axis=1), 1e-12)
        change = joint / chance[:, None] - prior
        # The offsets of a small sample are shrunken: each counts as one normal observation.
        total = -np.mean(np.log(chance)) + 0.5 * float(offset @ offset) / len(shown)
        slopes = np.mean(np.sum(change * shown, axis=1)) * slope
        return float(total), -np.concatenate([[slopes], change.mean(axis=0) - offset / len(shown)])

    n_classes = len(matrix)
    # The likelihood can have several maxima in the temperature: the search starts at the best.
    starts = [np.concatenate([[-np.log(t)], np.zeros(n_classes)]) for t in _TEMPERATURES]
    best = min(starts, key=lambda start: loss(start)[0])
    found = minimize(loss, best, jac=True, method="L-BFGS-B", options={"maxiter": 50}).x
    return float(np.exp(found[0])), np.asarray(found[1:])


def memorised_share(probabilities: np.ndarray, label: np.ndarray) -> float:
    """Return how often the given label has the highest probability where the model is least sure.

    These are the quarter of the rows whose highest probability is smallest. A model that has not
    seen the labels errs there; one that has learned them by heart does not. Ties count as
    agreement.
    """
    top = probabilities.max(axis=1)
    unsure = np.argsort(top, kind="stable")[: max(1, len(label) // 4)]
    own = probabilities[unsure, label[unsure]]
    return float(np.mean(own == top[unsure]))
