"""Noise that depends on the true class only: its transition matrix, and what follows from it.

Let ``T[a, k]`` be the chance that a sample of class a carries the label k. Of the samples that
pass any test on their features, let N_j carry the label j and let M_a be of class a. Then
``E N_j = sum_a T[a, j] M_a``, so M follows from N, and ``N_k - T[k, k] M_k`` is how many of
those with label k are wrong.

A matrix of 20,000 classes would take 3.2 GB. But the anchors of a class are few: its wrong labels
are spread evenly over all classes, apart from those that the anchors show more often than chance
would. So the matrix is a diagonal, plus a column times a row of ones, plus a part that is sparse,
and is stored as such for very many classes. So is its inverse (Sherman and Morrison), up to
entries next to nothing.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array, diags_array, issparse

from kspr.core.arrays import rows_times

__all__ = ["MANY_CLASSES", "Transition", "estimate_transition"]

MANY_CLASSES = 1024
"""Classes up to which the matrix is written out: a larger one would take over 8 MB."""
_MOST_OWN = 0.9
"""Labels that go to a class's directions of its own, at most, as a share of those that stay right,
where the matrix is not written out: what is beyond that counts as spread evenly."""
_NOTHING = 1e-7
"""Entries of an inverse, whose largest are about 1, below which they are left out."""


@dataclass(frozen=True)
class Transition:
    """How labels go wrong, as estimated from the anchors."""

    right: np.ndarray
    """Chance of a right label, for each true class."""
    even: np.ndarray
    """Chance of every other label, for each true class, apart from `own`."""
    own: np.ndarray | csr_array
    """What the chance of a label (column) is above `even`, given the true class (row)."""
    error: float
    """Standard error of the share of wrong labels that all classes have in common."""
    counts: np.ndarray | csr_array
    """Labels (column) of the anchors of each class (row)."""

    @property
    def written(self) -> bool:
        """Whether the matrix is written out."""
        return not issparse(self.own)

    @cached_property
    def matrix(self) -> np.ndarray:
        """Chance of each label (column) given the true class (row); empty if it is not written."""
        if not self.written:
            return np.empty((0, 0))
        matrix = np.asarray(self.own + self.even[:, None])
        np.fill_diagonal(matrix, self.right)
        return matrix

    @property
    def wrong_share(self) -> float:
        """Share of wrong labels among the samples that were counted."""
        size = np.asarray(self.counts.sum(axis=1))
        return float(np.sum(size * (1.0 - self.right)) / max(size.sum(), 1e-12))

    def mix(self, chance: np.ndarray) -> np.ndarray:
        """Return the chance of each label, given those of each class to be true: rows of both."""
        if self.written:
            return rows_times(chance, self.matrix.astype(chance.dtype))
        mixed = np.asarray(chance * (self.right - self.even).astype(chance.dtype))
        # Row by row: a product with a vector would round by the place of a row.
        mixed += np.sum(chance * self.even.astype(chance.dtype), axis=1, keepdims=True)
        mixed += chance @ self.own.astype(chance.dtype)
        return mixed

    def unmix(self, share: np.ndarray) -> np.ndarray:
        """Return the share of each true class, given those of each label: rows of both."""
        near, column, row = self._inverse
        if self.written:
            return rows_times(share.astype(near.dtype, copy=False), near)
        return np.asarray(share @ near - np.outer(share @ column, row))

    def columns(self, label: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """Return the chance of the given labels under each true class: ``(rows, classes)``."""
        if self.written:
            return np.asarray(self.matrix.T[label], dtype=dtype)
        columns = self._by_label[label].toarray().astype(dtype)
        columns += self.even.astype(dtype)
        columns[np.arange(len(label)), label] = self.right[label]
        return np.asarray(columns)

    def noisier(self, change: float | np.ndarray) -> "Transition":
        """Return the matrix with each row's share of wrong labels changed."""
        c, wrong = len(self.right), 1.0 - self.right
        changed = np.clip(wrong + change, 0.0, 0.99 * (1.0 - 1.0 / c))
        factor = np.divide(changed, wrong, out=np.zeros(c), where=wrong > 0)
        # A row without wrong labels shows no directions: new ones fall evenly.
        even = np.where(wrong > 0, self.even * factor, changed / (c - 1))
        return replace(self, right=1.0 - changed, even=even, own=_scaled(self.own, factor))

    def wrong_spread(self) -> "Transition":
        """Return where wrong labels go: the matrix without right ones, its rows of sum 1."""
        c, wrong = len(self.right), 1.0 - self.right
        factor = np.divide(1.0, wrong, out=np.zeros(c), where=wrong > 0)
        even = np.where(wrong > 0, self.even * factor, 1.0 / (c - 1))
        return replace(self, right=np.zeros(c), even=even, own=_scaled(self.own, factor))

    def with_wrong(self, share: np.ndarray) -> "Transition":
        """Return the matrix whose classes have a `share` of wrong labels; this one is a spread."""
        own = _scaled(self.own, share)
        return replace(self, right=1.0 - share, even=self.even * share, own=own)

    def counted(self, size: np.ndarray) -> "Transition":
        """Return the matrix with the labels that classes of some sizes are expected to have."""
        # Written out, they would be too many; then each class has its size only.
        counts = _scaled(self.matrix, size) if self.written else csr_array(diags_array(size))
        return replace(self, counts=counts)

    def weights(self, label: np.ndarray, column: np.ndarray) -> np.ndarray:
        """Return what a sample with a label adds to the wrong ones of a class: ``(3, pairs)``.

        First the estimate, then its variance, then its change when all classes are noisier by a
        standard error.
        """
        # N_k - T[k, k] M_k with M = inv(T') N, as weights on N.
        middle, above, below = (
            (label == column) - noise.right[column] * noise._inverse_at(label, column)
            for noise in (self, *self._bounds)
        )
        # Counts vary like Poisson numbers: each sample adds the square of its weight.
        return np.stack([middle, middle**2, (above - below) / 2])

    def weight_bounds(self) -> np.ndarray:
        """Return bounds on the sums of the sizes of the three `weights` over all classes."""
        inverses = (noise._inverse for noise in (self, *self._bounds))
        middle, above, below = (
            1.0 + abs(near).sum(axis=1).max() + np.abs(column).max() * np.abs(row).sum()
            for near, column, row in inverses
        )
        return np.array([middle, middle**2, (above + below) / 2])

    @cached_property
    def _by_label(self) -> csr_array:
        return csr_array(self.own.T)

    @cached_property
    def _bounds(self) -> tuple["Transition", "Transition"]:
        return self.noisier(self.error), self.noisier(-self.error)

    @cached_property
    def _inverse(self) -> tuple[np.ndarray | csr_array, np.ndarray, np.ndarray]:
        """A matrix, and a column and a row whose product is to be taken off it.

        Where the matrix is not written out, the inverse of its sparse part is a series of powers,
        which ends soon: of every class, more of the labels stay right than go to the classes of its
        own part.
        """
        if self.written:
            return np.linalg.pinv(self.matrix), np.zeros(1), np.zeros(1)
        stays = 1.0 / (self.right - self.even)
        step = csr_array(self.own @ diags_array(-stays))
        near = term = csr_array(diags_array(stays))
        while term.nnz:
            term = csr_array(term @ step)
            term.data[np.abs(term.data) < _NOTHING] = 0.0
            term.eliminate_zeros()
            near = csr_array(near + term)
        column = near @ self.even
        return near, column / (1.0 + column.sum()), near.sum(axis=0)

    def _inverse_at(self, label: np.ndarray, column: np.ndarray) -> np.ndarray:
        near, left, right = self._inverse
        entries = near[label, column]
        if self.written:
            return np.asarray(entries)
        entries = entries.toarray() if issparse(entries) else entries  # by SciPy's version
        return np.asarray(entries - left[label] * right[column])


def estimate_transition(
    counts: np.ndarray | csr_array, *, written: bool | None = None
) -> Transition:
    """Return the transition matrix behind the anchors' labels.

    Rows are shrunken: each row's share of wrong labels moves towards the common one, and the
    classes that its wrong labels go to move towards all classes alike, as far as the differences
    between rows could be chance. By default it is `written` out for up to 1,024 classes.
    """
    c = counts.shape[0]
    if c <= MANY_CLASSES if written is None else written:
        counts = counts.toarray() if isinstance(counts, csr_array) else counts
    else:
        counts = csr_array(counts)
    total = np.maximum(counts.sum(axis=1), 1.0)
    wrong, error = _shrunken_shares((total - counts.diagonal()) / total, total)
    # At the limit labels do not depend on the class, and the matrix has no inverse.
    wrong = np.clip(wrong, 0.0, 0.98 * (1.0 - 1.0 / c))
    own_label = diags_array(counts.diagonal())
    off = csr_array(counts - own_label) if issparse(counts) else counts - own_label.toarray()
    evenly = _by_chance(off)
    if issparse(counts):
        most = _MOST_OWN * (1.0 - wrong) / np.maximum(wrong, 1e-300)
        evenly = np.maximum(evenly, 1.0 - most)
    seen = np.maximum(off.sum(axis=1), 1.0)
    own = _scaled(off, wrong * (1.0 - evenly) / seen)
    return Transition(1.0 - wrong, wrong * evenly / (c - 1), own, error, counts)


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


def _scaled(matrix: np.ndarray | csr_array, factor: np.ndarray) -> np.ndarray | csr_array:
    """Return a matrix with each row times a factor; of a sparse one, entries that are not zero."""
    if not issparse(matrix):
        return matrix * factor[:, None]
    scaled = csr_array(diags_array(factor) @ matrix)
    scaled.eliminate_zeros()
    return scaled
