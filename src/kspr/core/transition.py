"""Noise that depends on the true class only: its transition matrix, and what follows from it.

Let ``T[a, k]`` be the chance that a sample of class a carries the label k. Of the samples that
pass any test on their features, let N_j carry the label j and let M_a be of class a. Then
``E N_j = sum_a T[a, j] M_a``, so M follows from N, and ``N_k - T[k, k] M_k`` is how many of
those with label k are wrong. Results are on the host by now, so these functions take NumPy arrays
only.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import overload

import numpy as np
from scipy.sparse import csr_array, diags_array, issparse

from kspr.core.arrays import rows_times
from kspr.core.intervals import Z95
from kspr.core.wide_transition import WideTransition, rounded

__all__ = ["AnyTransition", "Transition", "estimate_transition", "wrong_among", "wrong_share"]


@dataclass(frozen=True)
class Transition:
    """How labels go wrong, as estimated from the anchors."""

    matrix: np.ndarray
    """Chance of each label (column) given the true class (row)."""
    error: float
    """Standard error of the share of wrong labels that all classes have in common."""
    counts: np.ndarray
    """Labels (column) of the anchors of each class (row)."""
    units: np.ndarray | None = None
    """What `weights` are multiples of; None where they are not rounded."""

    @property
    def right(self) -> np.ndarray:
        """Chance of a right label, for each true class."""
        return np.diag(self.matrix)

    def mix(self, chance: np.ndarray) -> np.ndarray:
        """Return the chance of each label, given those of each class to be true: rows of both."""
        return rows_times(chance, self.matrix.astype(chance.dtype))

    def columns(self, label: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """Return the chance of the given labels under each true class: ``(rows, classes)``."""
        return np.asarray(self.matrix.T[label], dtype=dtype)

    def dot(self, values: np.ndarray) -> np.ndarray:
        """Return the matrix times a vector."""
        return np.asarray(self.matrix @ values)

    def noisier(self, change: float | np.ndarray) -> "Transition":
        """Return the matrix with each row's share of wrong labels changed."""
        return replace(self, matrix=_noisier(self.matrix, change))

    def solve(self, values: np.ndarray) -> np.ndarray:
        """Return the inverse times a vector."""
        return np.asarray(self._inverse @ values)

    def solve_transposed(self, values: np.ndarray) -> np.ndarray:
        """Return the transposed inverse times a vector, or times each column of a matrix."""
        return np.asarray(self._inverse.T @ values)

    def weights(self, label: np.ndarray, column: np.ndarray) -> np.ndarray:
        """Return what a sample with a label adds to the wrong ones of a class: ``(3, pairs)``.

        First the estimate, then its variance, then its change when all classes are noisier by a
        standard error.
        """
        return np.asarray(self._weights[:, label * len(self.matrix) + column])

    def weight_bounds(self) -> np.ndarray:
        """Return the largest sums of the sizes of the three `weights` over the classes of a row."""
        return np.asarray(np.abs(self._weights).reshape(3, *self.matrix.shape).sum(axis=2).max(1))

    def with_rounded_weights(self, units: np.ndarray) -> "Transition":
        """Return the same with `weights` that are multiples of the three `units`."""
        return replace(self, units=units)

    @cached_property
    def _inverse(self) -> np.ndarray:
        return np.linalg.pinv(self.matrix)

    @cached_property
    def _weights(self) -> np.ndarray:
        """All of `weights`, label by label."""
        # N_k - T[k, k] M_k with M = inv(T') N, as weights on N.
        middle, above, below = (
            np.eye(len(self.matrix)) - noise._inverse * noise.right
            for noise in (self, self.noisier(self.error), self.noisier(-self.error))
        )
        # Counts vary like Poisson numbers: each sample adds the square of its weight.
        found = np.stack([middle, middle**2, (above - below) / 2]).reshape(3, -1)
        return found if self.units is None else rounded(found, self.units)


AnyTransition = Transition | WideTransition


@overload
def estimate_transition(counts: np.ndarray) -> Transition: ...


@overload
def estimate_transition(counts: csr_array) -> WideTransition: ...


def estimate_transition(counts: np.ndarray | csr_array) -> AnyTransition:
    """Return the transition matrix behind the anchors' labels; a wide one for sparse counts.

    Rows are shrunken: each row's share of wrong labels moves towards the common one, and the
    classes that its wrong labels go to move towards all classes alike, as far as the differences
    between rows could be chance.
    """
    total = np.maximum(counts.sum(axis=1), 1.0)
    wrong, error = _shrunken_shares((total - counts.diagonal()) / total, total)
    limit = 1.0 - 1.0 / counts.shape[0]
    # At the limit labels do not depend on the class, and the matrix has no inverse.
    wrong = np.clip(wrong, 0.0, 0.98 * limit)
    if issparse(counts):
        off = csr_array(counts - diags_array(counts.diagonal()))
        return WideTransition.spread(wrong, _by_chance(off), off, error, counts)
    off = counts * (1.0 - np.eye(len(counts)))
    even = (1.0 - np.eye(len(counts))) / (len(counts) - 1)
    evenly = _by_chance(off)[:, None]
    seen = np.maximum(off.sum(axis=1, keepdims=True), 1.0)
    matrix = wrong[:, None] * (evenly * even + (1.0 - evenly) * off / seen)
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


def _by_chance(off: np.ndarray | csr_array) -> np.ndarray:
    """Return, for each class, how much of the way its wrong labels went could be chance.

    James and Stein: the distance from an even spread that chance alone would make, over the one
    that is there.
    """
    c, wrong = off.shape[0], off.sum(axis=1)
    # The sum of (observed - expected)^2 / expected, over the other classes.
    distance = (c - 1) * (off * off).sum(axis=1) / np.maximum(wrong, 1e-300) - wrong
    chance = np.minimum(1.0, (c - 2) / np.maximum(distance, 1e-9))
    return np.asarray(np.where(wrong > 0, chance, 1.0))


def _noisier(matrix: np.ndarray, change: float | np.ndarray) -> np.ndarray:
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


def wrong_share(transition: AnyTransition, sizes: np.ndarray) -> tuple[float, float, float]:
    """Return the estimated share of wrong labels in the data, and two standard errors around it.

    `sizes` are the numbers of samples that have each label.

    The interval has a coverage of 95 % where all anchors are of their class; with few rows per
    class they are not, and the estimate is too high by more than its sampling error.
    The error of each row is that of its own anchors: shrinkage is weak where class noise rates
    differ.
    """
    counts, right = transition.counts, transition.right
    # M = inv(T') N, which sampling error can push below 0.
    true = np.clip(transition.solve_transposed(sizes.astype(float)), 0.0, None)
    true /= max(true.sum(), 1e-12)
    total = np.maximum(counts.sum(axis=1), 1.0)
    # Agresti and Coull's two extra observations, as for the matrix itself.
    wrong = (total - counts.diagonal() + 1.0) / (total + 2.0)
    error = np.sqrt(wrong * (1.0 - wrong) / total)
    above, below = transition.noisier(error), transition.noisier(-error)
    # A row that changes also changes how many samples its class is thought to have.
    solved = transition.solve(right)
    change = above.dot(solved) - below.dot(solved) - (above.right - below.right)
    middle, reach = float(1.0 - true @ right), Z95 * float(np.linalg.norm(true * change / 2))
    return middle, max(0.0, middle - reach), min(1.0, middle + reach)


def wrong_among(transition: AnyTransition, sizes: np.ndarray, errors: float) -> np.ndarray:
    """Return the share of wrong ones among each label, every class noisier by `errors`.

    `sizes` are the numbers of samples that have each label; errors are standard errors. It is not
    what each class loses: a rare class's label is often wrong where a common one's is not.
    """
    noise = transition.noisier(errors * transition.error)
    right = noise.right * noise.solve_transposed(sizes.astype(float))
    return np.asarray(np.clip(1.0 - right / np.maximum(sizes, 1.0), 0.0, 1.0))
