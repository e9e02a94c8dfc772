"""Noise that depends on the true class only: its transition matrix, and what follows from it.

Let ``T[a, k]`` be the chance that a sample of class a carries the label k. Of the samples that
pass any test on their features, let N_j carry the label j and let M_a be of class a. Then
``E N_j = sum_a T[a, j] M_a``, so M follows from N, and ``N_k - T[k, k] M_k`` is how many of
those with label k are wrong. Results are on the host by now, so these functions take NumPy arrays
only.
"""

from dataclasses import dataclass

import numpy as np

from kspr.core.intervals import Z95

__all__ = ["Transition", "estimate_transition", "wrong_among", "wrong_share", "wrong_weights"]


@dataclass(frozen=True)
class Transition:
    """How labels go wrong, as estimated from the anchors."""

    matrix: np.ndarray
    """Chance of each label (column) given the true class (row)."""
    error: float
    """Standard error of the share of wrong labels that all classes have in common."""
    counts: np.ndarray
    """Labels (column) of the anchors of each class (row)."""


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


def wrong_weights(transition: Transition) -> np.ndarray:
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
