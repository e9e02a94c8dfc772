"""Noise that depends on the true class only: its transition matrix, and the cut-offs it gives.

Let ``T[a, k]`` be the chance that a sample of class a carries the label k. Of the samples that
pass any test on their features, let N_j carry the label j and let M_a be of class a. Then
``E N_j = sum_a T[a, j] M_a``, so M follows from N, and ``N_k - T[k, k] M_k`` is how many of
those with label k are wrong. Results are on the host by now, so these functions take NumPy arrays
only.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from kspr.core.cutoffs import reachable
from kspr.core.intervals import Z95

__all__ = [
    "Transition",
    "best_class",
    "count_anchors",
    "estimate_transition",
    "probability_right",
    "transition_levels",
    "wrong_among",
    "wrong_share",
]

ANCHOR_SHARE = 0.06
"""Share of a class that serves as anchors: fewer are purer, more are surer."""
_LEAST_ANCHORS = 15
"""Per class and half, unless that were more than a fifth of them."""
CAUTION = 0.84
"""Standard errors on top of every estimate: about four in five are then not too low."""
_SOFTENING = 1.4
"""The fit is too confident about doubtful samples; a softer softmax orders them better."""
_OVERCONFIDENCE = 2.0
"""Log-odds of the best class over what they are worth: the best of many looks better than it is.
Measured on CIFAR-10; `tests/selectors/test_relabelling.py` holds it."""
TEMPERATURES = tuple(0.0125 * 2 ** (step / 2) for step in range(13))
"""Of the softmax that turns fitted values into chances."""
_CALIBRATION_ROWS = 5_000
_GRADES = 1 << 14


@dataclass(frozen=True)
class Transition:
    """How labels go wrong, as estimated from the anchors."""

    matrix: np.ndarray
    """Chance of each label (column) given the true class (row)."""
    error: float
    """Standard error of the share of wrong labels that all classes have in common."""
    counts: np.ndarray
    """Labels (column) of the anchors of each class (row)."""


def count_anchors(
    prediction: np.ndarray, label: np.ndarray, half: np.ndarray, n_classes: int
) -> np.ndarray:
    """Count the labels of the samples that look most like each class: ``(class, label)``.

    `prediction` comes from the other half, so a sample's own label has no part in choosing it.
    """
    counts = np.zeros((n_classes, n_classes))
    for side in (0, 1):
        rows = np.flatnonzero(half == side)
        # Class by class in memory: each is partitioned on its own.
        given, shown = label[rows], np.ascontiguousarray(prediction[rows].T)
        sizes = np.bincount(given, minlength=n_classes)
        for k in range(n_classes):
            few = min(_LEAST_ANCHORS, int(np.ceil(sizes[k] / 5)))
            wanted = min(len(rows), max(few, round(ANCHOR_SHARE * sizes[k])))
            if wanted:
                best = np.argpartition(-shown[k], wanted - 1)[:wanted]
                counts[k] += np.bincount(given[best], minlength=n_classes)
    return counts


def estimate_transition(counts: np.ndarray) -> Transition:
    """Return the transition matrix behind the anchors' labels.

    Rows are shrunken: each row's share of wrong labels moves towards the common one, and the
    classes that its wrong labels go to move towards all classes alike, as far as the differences
    between rows could be chance.
    """
    total = np.maximum(counts.sum(axis=1), 1.0)
    right = np.diag(counts)
    wrong, error = _shrunken_shares((total - right) / total, total)
    limit = 1.0 - 1.0 / len(counts)
    # At the limit labels do not depend on the class, and the matrix has no inverse.
    wrong = np.clip(wrong, 0.0, 0.98 * limit)
    matrix = wrong[:, None] * _shrunken_directions(counts)
    np.fill_diagonal(matrix, 1.0 - wrong)
    return Transition(matrix, error, counts)


def _shrunken_shares(share: np.ndarray, total: np.ndarray) -> tuple[np.ndarray, float]:
    """Shrink shares towards their mean by how much of their spread is sampling error.

    The second value is the standard error of that mean.
    """
    mean = float(np.average(share, weights=total))
    # Agresti and Coull's two extra observations: a share of 0 among few is not a sure 0.
    mean_spread = (mean * total.sum() + 1.0) / (total.sum() + 2.0)
    variance = mean_spread * (1.0 - mean_spread) / total
    between = max(0.0, float(np.var(share, ddof=1)) - float(variance.mean()))
    own = between / (between + variance)
    pooled = mean_spread * (1.0 - mean_spread) / total.sum()
    return own * share + (1.0 - own) * mean, float(np.sqrt(pooled))


def _shrunken_directions(counts: np.ndarray) -> np.ndarray:
    """Return where the wrong labels of each class go, rows of shares without a diagonal."""
    n_classes = len(counts)
    even = (1.0 - np.eye(n_classes)) / (n_classes - 1)
    off = counts * (1.0 - np.eye(n_classes))
    wrong = off.sum(axis=1, keepdims=True)
    expected = np.maximum(wrong * even, 1e-12)
    distance = np.sum(np.where(even > 0, (off - wrong * even) ** 2 / expected, 0.0), axis=1)
    # James and Stein: the distance that chance alone would make, over the one that is there.
    chance = np.minimum(1.0, (n_classes - 2) / np.maximum(distance, 1e-9))[:, None]
    chance = np.where(wrong > 0, chance, 1.0)
    return np.asarray(chance * even + (1.0 - chance) * off / np.maximum(wrong, 1.0))


def probability_right(
    prediction: np.ndarray, matrix: np.ndarray, label: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the chance that each class, were it the label, would be right: ``(rows, classes)``.

    The second array is the chance that each class is the true one, before the label is seen: the
    softmax of the fit under which the given labels are most likely. The first is made from a
    softer one, which orders doubtful samples better.
    """
    temperature = _temperature(prediction, matrix, label)
    soft = _softmax(prediction, _SOFTENING * temperature)
    seen = soft @ matrix.astype(soft.dtype)
    # Bayes: P(class k | label k) = P(class k) T[k, k] / P(label k).
    right = soft * np.diag(matrix).astype(soft.dtype) / np.maximum(seen, 1e-30)
    return right, _softmax(prediction, temperature)


def best_class(
    prior: np.ndarray, matrix: np.ndarray, label: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the likeliest true class of each sample, and its chance to be the true one.

    `prior` is what the sample looks like (`probability_right`); the label that it was given counts
    as well.
    """
    chance = prior * matrix.T[label].astype(prior.dtype)
    best = np.argmax(chance, axis=1)
    top = chance[np.arange(len(label)), best].astype(np.float64)
    total = np.sum(chance, axis=1, dtype=np.float64)
    # A label that the matrix rules out leaves nothing to go by.
    share = np.divide(top, total, out=np.full(len(label), 1 / len(matrix)), where=total > 0)
    odds = (1.0 - share) / np.maximum(share, 1e-300)
    return best, np.minimum(share, 1.0 / (1.0 + odds ** (1 / _OVERCONFIDENCE)))


def _softmax(prediction: np.ndarray, temperature: float) -> np.ndarray:
    return np.asarray(softmax(prediction / temperature, axis=1))


def _temperature(prediction: np.ndarray, matrix: np.ndarray, label: np.ndarray) -> float:
    step = max(1, len(label) // _CALIBRATION_ROWS)
    shown, given = prediction[::step], label[::step]
    # (rows, classes): the chance of the given label under each true class.
    columns = matrix.T[given]

    def log_likelihood(temperature: float) -> float:
        chance = np.sum(_softmax(shown, temperature) * columns, axis=1)
        return float(np.mean(np.log(np.maximum(chance, 1e-12))))

    return max(TEMPERATURES, key=log_likelihood)


def transition_levels(
    right: np.ndarray, label: np.ndarray, transition: Transition, *, pooled: bool
) -> np.ndarray:
    """Return the smallest level at which each sample is kept, those most likely right first.

    `right` ``(rows, classes)`` is the chance that each class would be right as the label; it may
    use no sample's own label. One cut per class, or one for all.
    """
    grades = _grades(right)
    own = grades[label, np.arange(len(label))]
    columns = _weights(transition)
    if pooled:
        return np.asarray(_levels(grades, own, label, columns)[own])
    levels = np.empty(len(label))
    for k in range(len(grades)):
        member = label == k
        one = slice(k, k + 1)
        levels[member] = _levels(grades[one], own[member], label, columns[:, one])[own[member]]
    return levels


def _grades(right: np.ndarray) -> np.ndarray:
    """Return small whole numbers that grow with doubt, ``(classes, rows)``: nothing is sorted.

    Equal steps in log-odds keep the clearest samples apart; what falls into one step, a fifth of
    a percent of the odds, enters together.
    """
    odds = np.log(np.maximum(1.0 - right, 1e-7) / np.maximum(right, 1e-7))
    step = (_GRADES - 1) / (2 * np.log(1e7))
    # int16 holds every grade below _GRADES, in a quarter of the memory of doubles.
    return np.ascontiguousarray(np.rint((odds + np.log(1e7)) * step).astype(np.int16).T)


def _levels(
    grades: np.ndarray, own: np.ndarray, label: np.ndarray, columns: np.ndarray
) -> np.ndarray:
    """Return the smallest level at which each grade is kept, given those of the labels.

    `grades` and `columns` (`_weights`) are of the classes that are cut together.
    """
    kept = np.cumsum(np.bincount(own, minlength=_GRADES))
    found = np.zeros((3, _GRADES))
    for grade, *weights in zip(grades, *columns, strict=True):
        for total, weight in zip(found, weights, strict=True):
            total += np.bincount(grade, weights=weight[label], minlength=_GRADES)
    wrong, variance, change = np.cumsum(found, axis=1)
    # Two sources of error: the counts of these samples, and the matrix itself.
    wrong = wrong + CAUTION * np.sqrt(variance + change**2)
    # A looser cut cannot hold fewer wrong labels, nor more than it keeps.
    wrong = np.minimum(np.maximum.accumulate(np.maximum(wrong, 0.0)), kept)
    return reachable((1.0 + wrong) / np.maximum(kept, 1))


def _weights(transition: Transition) -> np.ndarray:
    """Return what a sample with each label (last axis) adds to the wrong ones of a class.

    First the estimate, then its variance, then its change when all classes are noisier by a
    standard error.
    """
    matrix, error = transition.matrix, transition.error
    # N_k - T[k, k] M_k with M = inv(T') N, as weights on N.
    middle, above, below = (
        np.eye(len(m)) - np.diag(m)[:, None] * np.linalg.pinv(m).T
        for m in (matrix, _noisier(matrix, error), _noisier(matrix, -error))
    )
    # Counts vary like Poisson numbers: each sample adds the square of its weight.
    return np.stack([middle, middle**2, (above - below) / 2])


def _noisier(matrix: np.ndarray, change: float) -> np.ndarray:
    """Return the matrix with each row's share of wrong labels changed."""
    wrong = 1.0 - np.diag(matrix)
    changed = np.clip(wrong + change, 0.0, 0.99 * (1.0 - 1.0 / len(matrix)))
    even = (1.0 - np.eye(len(matrix))) / (len(matrix) - 1)
    known = wrong[:, None] > 0
    # A row without wrong labels shows no directions: new ones fall evenly.
    shares = np.where(known, matrix / np.where(known, wrong[:, None], 1.0), even)
    result = shares * changed[:, None]
    np.fill_diagonal(result, 1.0 - changed)
    return np.asarray(result)


def wrong_share(transition: Transition, label: np.ndarray) -> tuple[float, float, float]:
    """Return the estimated share of wrong labels in the data, and two standard errors around it.

    The interval has a coverage of 95 % where all anchors are of their class; with few rows per
    class they are not, and the estimate is too high by more than its sampling error.
    The error of each row is that of its own anchors: shrinkage is weak where class noise rates
    differ.
    """
    matrix, counts = transition.matrix, transition.counts
    sizes = np.bincount(label, minlength=len(matrix)).astype(float)
    inverse, right = np.linalg.pinv(matrix), np.diag(matrix)
    # M = inv(T') N, which sampling error can push below 0.
    true = np.clip(inverse.T @ sizes, 0.0, None)
    true /= max(true.sum(), 1e-12)
    total = np.maximum(counts.sum(axis=1), 1.0)
    # Agresti and Coull's two extra observations, as for the matrix itself.
    wrong = (total - np.diag(counts) + 1.0) / (total + 2.0)
    error = np.sqrt(wrong * (1.0 - wrong) / total)
    change = (_noisier(matrix, error) - _noisier(matrix, -error)) / 2
    # A row that changes also changes how many samples its class is thought to have.
    moved = true * (change @ (inverse @ right) - np.diag(change))
    middle, reach = float(1.0 - true @ right), Z95 * float(np.linalg.norm(moved))
    return middle, max(0.0, middle - reach), min(1.0, middle + reach)


def wrong_among(transition: Transition, label: np.ndarray, errors: float) -> np.ndarray:
    """Return the share of wrong ones among each label, every class noisier by `errors`.

    These are standard errors. It is not what each class loses: a rare class's label is often
    wrong where a common one's is not.
    """
    matrix = _noisier(transition.matrix, errors * transition.error)
    sizes = np.bincount(label, minlength=len(matrix)).astype(float)
    right = np.diag(matrix) * (np.linalg.pinv(matrix).T @ sizes)
    return np.asarray(np.clip(1.0 - right / np.maximum(sizes, 1.0), 0.0, 1.0))
