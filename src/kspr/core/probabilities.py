"""Class probabilities of a user's own model: anchors, and how labels go wrong by them.

A model may be too sure or not sure enough, may have learned the noise with the labels, and may
round to 0 and 1. So only the order of its probabilities chooses the anchors, and what a probability
is worth is fitted to the given labels, with the noise.
"""

import numpy as np

from kspr.core.noise_model import NoiseModels, fit_noise, sample_rows
from kspr.core.transition import estimate_transition

_ANCHOR_SHARE = 0.15
"""Share of a class that serves as anchors: fewer are purer, more are surer. Of seven settings tried
on CIFAR-10 and digits; with 0.06 the FSR under asymmetric noise was further above q."""
_LEAST_ANCHORS = 30
"""Per class, unless that were more than a fifth of it."""
_SMALLEST = 1e-30
"""No probability counts as less than this: its logarithm must be finite."""


def fit_probabilities(
    probabilities: np.ndarray, label: np.ndarray, *, class_only: bool = False
) -> tuple[np.ndarray, np.ndarray, NoiseModels]:
    """Return log-probabilities, the rows that models were fitted to, and the models.

    `probabilities` must come from a model that has not seen the label of the row that they are of.
    With `class_only`, mistakes depend on the class only, whatever the labels say.
    """
    logs = _log_probabilities(probabilities)
    anchors = estimate_transition(count_anchors_evenly(log_odds(logs), label))
    chosen = sample_rows(np.ones(len(label), dtype=bool), logs.shape[1])
    models = fit_noise(logs[chosen], label[chosen], anchors, across=False, class_only=class_only)
    return logs, chosen, models


def _log_probabilities(probabilities: np.ndarray) -> np.ndarray:
    """Return logarithms, those of rounded zeros a little below the smallest of all."""
    shown = np.asarray(probabilities, dtype=np.float64)
    # A rounded 0 stands for anything below the smallest number that was not rounded away. Half of
    # that would tie sure rows with surer ones, and what they get wrong would count as no noise:
    # with two digits 12.5 % instead of 20 %. Its square gives 21.7 %.
    floor = max(_SMALLEST, (float(np.min(shown, where=shown > 0, initial=1.0)) / 2) ** 2)
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


def memorised_share(probabilities: np.ndarray, label: np.ndarray) -> float:
    """Return how often the given label has the highest probability where the model is least sure.

    These are the quarter of the rows whose highest probability is smallest. A model that has not
    seen the labels errs there; one that has learned them by heart does not. Ties count as
    agreement.
    """
    top = probabilities.max(axis=1)
    unsure = np.argsort(top, kind="stable")[: max(1, len(label) // 4)]
    of_label = probabilities[unsure, label[unsure]]
    return float(np.mean(of_label == top[unsure]))
