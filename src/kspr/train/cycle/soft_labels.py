"""Soft labels: the chance of each class to be the true one, given a row and its label."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax

from kspr.core.labels import codes_in
from kspr.core.probabilities import calibrate

__all__ = ["SoftLabels", "combined", "likely_noise", "mean_of", "soft_labels", "with_given_labels"]

_ROUNDS = 20
_OBSERVATIONS = 10.0
"""How many normal observations the logarithm of a power, and each offset, counts as. With none,
nearly useless probabilities under a nearly flat transition matrix would become certainties."""
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
    prior[:, present] = combined([found.prior], found.transition.matrix, codes)
    transition[np.ix_(present, present)] = found.transition.matrix
    return SoftLabels(with_given_labels(prior, transition, label), prior, transition)


def likely_noise(prior: np.ndarray, transition: np.ndarray, label: np.ndarray) -> SoftLabels:
    """Return soft labels with the noise under which the given labels are most likely.

    For probabilities of weak models, whose surest rows are of the wrong class too often to serve as
    anchors: these make the noise look larger than it is. The search begins at `transition`; noise
    and calibration take turns (EM).
    """
    present = np.unique(label)
    codes = codes_in(present, label, "label")
    shown, matrix = prior[:, present], transition[np.ix_(present, present)]
    for _ in range(_ROUNDS):
        chance = with_given_labels(combined([shown], matrix, codes, _OBSERVATIONS), matrix, codes)
        counts = np.stack([chance[codes == k].sum(axis=0) for k in range(len(present))], axis=1)
        matrix = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-30)
    found, whole = np.zeros(prior.shape), np.eye(prior.shape[1])
    found[:, present] = combined([shown], matrix, codes, _OBSERVATIONS)
    whole[np.ix_(present, present)] = matrix
    return SoftLabels(with_given_labels(found, whole, label), found, whole)


def combined(
    parts: Sequence[np.ndarray],
    transition: np.ndarray,
    label: np.ndarray,
    observations: float = 0.0,
) -> np.ndarray:
    """Return one prior from several: a product of powers, times an offset for each class.

    The powers and offsets are those under which the given labels are most likely, so none of
    `parts` may have seen the labels. Under Sym. 80 % a few thousand rows leave the share of a class
    unsure by half of it, and networks that learn from the soft labels make such an error larger:
    all rows are used, unless they are very many. `observations` draws the powers to 1 divided by
    their number and the offsets to 0.
    """
    n, n_classes, m = len(label), len(transition), len(parts)
    # Evenly spaced: files are often sorted by class.
    some = np.linspace(0, n - 1, min(n, _MOST_VALUES // (n_classes * m))).astype(int)
    shown = [_logs(part[some]) for part in parts]
    columns = transition.T[label[some]]

    def loss(values: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the mean negative log-likelihood, and its gradient."""
        powers = np.exp(values[:m])
        chance = _product(shown, powers, values[m:])
        joint = chance * columns
        seen = np.maximum(joint.sum(axis=1), 1e-12)
        change = joint / seen[:, None] - chance
        slopes = [
            p * np.mean(np.sum(change * s, axis=1)) for p, s in zip(powers, shown, strict=True)
        ]
        away = (values - start) * observations / len(some)
        total = 0.5 * float((values - start) @ away) - float(np.mean(np.log(seen)))
        return total, away - np.concatenate([slopes, change.mean(axis=0)])

    start = np.concatenate([np.full(m, -np.log(m)), np.zeros(n_classes)])
    best = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 50}).x
    return _product([_logs(part) for part in parts], np.exp(best[:m]), best[m:])


def mean_of(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Return the geometric mean of priors; for parts of which some have seen the labels.

    >>> mean_of([np.array([[0.5, 0.5]]), np.array([[0.9, 0.1]])])
    array([[0.75, 0.25]])
    """
    return _product([_logs(part) for part in parts], np.full(len(parts), 1 / len(parts)), 0.0)


def _logs(prior: np.ndarray) -> np.ndarray:
    return np.asarray(np.log(np.maximum(prior, 1e-30)))


def _product(logs: Sequence[np.ndarray], powers: np.ndarray, offset: Any) -> np.ndarray:
    total = sum(power * part for power, part in zip(powers, logs, strict=True))
    return np.asarray(softmax(total + offset, axis=1))


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
