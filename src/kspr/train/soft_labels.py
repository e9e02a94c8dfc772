"""Soft labels: the chance of each class to be the true one, given a row and its label."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax

from kspr.core.labels import codes_in
from kspr.core.probabilities import fit_probabilities

_ROUNDS, _SMALL_STEP = 300, 1e-3
"""Rounds of EM at most, and the change of the noise in a round after which there are no more."""
_OBSERVATIONS = 50.0
"""How many normal observations the logarithm of a power, and each offset, counts as. With few,
nearly useless probabilities under a nearly flat transition matrix would become certainties."""
_ALIKE = 100.0
"""Rows of each class that are taken to have gone wrong as all classes do on average, to any other
class alike. With none, a few hundred rows at Sym. 80 % would make the matrix a random one."""
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

    Noise that depends on the class only is estimated as `ProbabilitySelector` does it. The
    probabilities are calibrated as it does it, and again by all rows.
    """
    # A class that no row is labelled with cannot be calibrated, and is the true one of none.
    present = np.unique(label)
    shown = probabilities[:, present].astype(np.float64)
    shown /= np.maximum(shown.sum(axis=1, keepdims=True), 1e-30)
    codes = codes_in(present, label, "label")
    logs, chosen, models = fit_probabilities(shown, codes)
    matrix = models.by_class.transition(logs[chosen]).matrix
    prior, transition = np.zeros(probabilities.shape), np.eye(probabilities.shape[1])
    prior[:, present] = combined([models.by_class.prior(logs)], matrix, codes)
    transition[np.ix_(present, present)] = matrix
    return SoftLabels(with_given_labels(prior, transition, label), prior, transition)


def likely_noise(
    priors: Sequence[np.ndarray], transition: np.ndarray, label: np.ndarray
) -> SoftLabels:
    """Return soft labels with the noise under which the given labels are most likely.

    For probabilities of weak models, whose surest rows are of the wrong class too often to serve as
    anchors: these make the noise look larger than it is. The search begins at `transition`; noise
    and calibration take turns (EM). `priors` are put together as in `combined`.

    The model of selections (`kspr.core.noise_model`) was tried in its place, on a linear fit to
    features of patches of 4,000 images of CIFAR-10. Its soft labels were right for .222 of the
    images at Sym. 80 % where these are for .278, its prior then being certain and wrong; at
    Sym. 40 % for .679 (.696), at Asy. 40 % for .773 (.770).
    """
    present = np.unique(label)
    codes = codes_in(present, label, "label")
    shown = [_logs(prior[:, present]) for prior in priors]
    matrix = transition[np.ix_(present, present)]
    some = _enough(len(label), len(present) * len(priors))
    few, own = [part[some] for part in shown], codes[some]
    best = _even(few)
    for _ in range(_ROUNDS):
        before = matrix
        best = _likeliest(few, matrix.T[own], best, _OBSERVATIONS)
        chance = with_given_labels(_product(few, best), matrix, own)
        counts = np.stack([chance[own == k].sum(axis=0) for k in range(len(present))], axis=1)
        matrix = _smoothed(counts)
        if np.abs(matrix - before).max() < _SMALL_STEP:
            break
    prior, whole = np.zeros((len(label), len(transition))), np.eye(len(transition))
    prior[:, present] = _product(shown, best)
    whole[np.ix_(present, present)] = matrix
    return SoftLabels(with_given_labels(prior, whole, label), prior, whole)


def combined(parts: Sequence[np.ndarray], transition: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Return one prior from several: a product of powers, times an offset for each class.

    The powers and offsets are those under which the given labels are most likely, so none of
    `parts` may have seen the labels. Under Sym. 80 % a few thousand rows leave the share of a class
    unsure by half of it, and networks that learn from the soft labels make such an error larger:
    all rows are used, unless they are very many.
    """
    some = _enough(len(label), len(transition) * len(parts))
    few = [_logs(part[some]) for part in parts]
    best = _likeliest(few, transition.T[label[some]], _even(few))
    return _product([_logs(part) for part in parts], best)


def _enough(n: int, width: int) -> np.ndarray:
    """Return the rows to calibrate by, of `n` with `width` values each: all, unless very many."""
    # Evenly spaced: files are often sorted by class.
    return np.linspace(0, n - 1, min(n, _MOST_VALUES // width)).astype(int)


def _smoothed(counts: np.ndarray) -> np.ndarray:
    """Return the transition matrix from expected counts (true class, label)."""
    k = len(counts)
    right = np.trace(counts) / counts.sum()
    alike = np.full((k, k), (1 - right) / max(k - 1, 1))
    np.fill_diagonal(alike, right)
    return np.asarray((counts + _ALIKE * alike) / (counts.sum(axis=1, keepdims=True) + _ALIKE))


def _even(logs: Sequence[np.ndarray]) -> np.ndarray:
    """Return the logarithms of equal powers that add up to 1, and offsets of 0."""
    return np.concatenate([np.full(len(logs), -np.log(len(logs))), np.zeros(logs[0].shape[1])])


def _likeliest(
    logs: Sequence[np.ndarray], columns: np.ndarray, start: np.ndarray, observations: float = 0.0
) -> np.ndarray:
    """Return logarithms of powers, and offsets, under which the given labels are most likely.

    `columns` has the chance of each row's label, given each class. The search begins at `start`;
    `observations` draws the result to equal powers and offsets of 0.
    """
    m, n, middle = len(logs), len(columns), _even(logs)

    def loss(values: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the mean negative log-likelihood, and its gradient."""
        chance = _product(logs, values)
        joint = chance * columns
        seen = np.maximum(joint.sum(axis=1), 1e-12)
        change = joint / seen[:, None] - chance
        slopes = [
            power * np.mean(np.sum(change * part, axis=1))
            for power, part in zip(np.exp(values[:m]), logs, strict=True)
        ]
        away = (values - middle) * observations / n
        total = 0.5 * float((values - middle) @ away) - float(np.mean(np.log(seen)))
        return total, away - np.concatenate([slopes, change.mean(axis=0)])

    likeliest = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 50})
    return np.asarray(likeliest.x)


def mean_of(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Return the geometric mean of priors; for parts of which some have seen the labels.

    >>> mean_of([np.array([[0.5, 0.5]]), np.array([[0.9, 0.1]])])
    array([[0.75, 0.25]])
    """
    logs = [_logs(part) for part in parts]
    return _product(logs, _even(logs))


def _logs(prior: np.ndarray) -> np.ndarray:
    return np.asarray(np.log(np.maximum(prior, 1e-30)))


def _product(logs: Sequence[np.ndarray], values: np.ndarray) -> np.ndarray:
    """Return the product of powers, whose logarithms come first in `values`, and of offsets."""
    m = len(logs)
    total = sum(power * part for power, part in zip(np.exp(values[:m]), logs, strict=True))
    return np.asarray(softmax(total + values[m:], axis=1))


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


_PENALTIES = (1e-3, 3e-3, 1e-2, 3e-2)
"""Tried on one part of the rows, for features of mean square 1."""
_WEAK_PENALTIES = (*_PENALTIES, 1e-1)
_PARTS = 5
_STEPS = 40
_RIGHT = 0.5
"""Share of labels that a fit takes to be right while the noise is not known. On 4,000 images of
CIFAR-10, a second fit with the noise of the first gave worse soft labels under symmetric noise,
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
    chance = np.empty((len(X), len(transition)))
    asked = part == numbers[0]
    fits = [_fit(rows.of(~asked), penalty) for penalty in penalties]
    best = int(np.argmax([_likelihood(rows.of(asked), fit) for fit in fits]))
    chance[asked] = _predict(shown[asked], fits[best])
    for number in numbers[1:]:
        asked = part == number
        # From zero: the fit before has seen the labels of this part.
        chance[asked] = _predict(shown[asked], _fit(rows.of(~asked), penalties[best]))
    return chance


def linear_soft_labels(X: np.ndarray, label: np.ndarray, part: np.ndarray, k: int) -> SoftLabels:
    """Return soft labels of `k` classes, where the noise is not known: it is the likeliest one.

    `label` holds whole numbers below `k`; `part` is as in `linear_probabilities`.
    """
    # A class that no row is labelled with is taken to be the true one of none.
    present = np.unique(label)
    matrix = np.full((len(present),) * 2, (1 - _RIGHT) / max(len(present) - 1, 1))
    np.fill_diagonal(matrix, _RIGHT)
    codes = codes_in(present, label, "label")
    said, start = np.zeros((len(X), k)), np.eye(k)
    said[:, present] = linear_probabilities(X, codes, matrix, part, _WEAK_PENALTIES)
    start[np.ix_(present, present)] = matrix
    return likely_noise([said], start, label)


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
    fit = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": _STEPS}).x
    return np.asarray(fit.reshape(d + 1, n_classes), dtype=np.float32)


def _predict(X: np.ndarray, fit: np.ndarray) -> np.ndarray:
    return np.asarray(softmax(X @ fit[:-1] + fit[-1], axis=1))


def _likelihood(rows: _Rows, fit: np.ndarray) -> float:
    """Return the mean log-likelihood of the labels of `rows`."""
    seen = np.sum(_predict(rows.X, fit) * rows.chance, axis=1, dtype=np.float64)
    return float(np.mean(np.log(np.maximum(seen, 1e-12))))
