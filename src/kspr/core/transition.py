"""Noise that depends on the true class only: its transition matrix, and what follows from it.

The samples that look most like a class are its anchors: their labels show how labels of that class
go wrong. One pass over blocks of samples finds them, and holds nothing but the best ones so far.

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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.sparse import coo_array, csr_array, diags_array, issparse

from kspr.core.arrays import rows_times

ANCHOR_SHARE = 0.06
"""Share of a class that serves as anchors: fewer are purer, more are surer."""
_LEAST_ANCHORS = 15
"""Per class and half, unless that were more than a fifth of them."""
MANY_CLASSES = 1024
"""Classes up to which the matrix is written out: a larger one would take over 8 MB."""
_MOST_OWN = 0.9
"""Labels that go to a class's directions of its own, at most, as a share of those that stay right,
where the matrix is not written out: what is beyond that counts as spread evenly."""
_NOTHING = 1e-7
"""Entries of an inverse, whose largest are about 1, below which they are left out."""


def bin_sizes(label: np.ndarray, half: np.ndarray, n_classes: int) -> np.ndarray:
    """Return how many samples of each class are in each half: ``(2, classes)``."""
    return np.stack([np.bincount(label[half == side], minlength=n_classes) for side in (0, 1)])


class Anchors:
    """The labels of the anchors among the samples that were added so far.

    `sizes` are the `bin_sizes` of all samples that will be added: they set how many anchors a class
    has in a half. Of samples that tie at the border those that were added first are anchors, so
    blocks are added, and states joined, in the order of the samples.

    `least` has for each bin what an anchor must reach at least, if that is known; the less must be
    kept. It may be a guess: `complete` tells whether it was too high.
    """

    def __init__(self, sizes: np.ndarray, least: np.ndarray | None = None) -> None:
        self._n_classes = sizes.shape[1]
        # A bin is a class in a half.
        self._sizes = sizes.reshape(-1)
        few = np.minimum(_LEAST_ANCHORS, np.ceil(self._sizes / 5))
        self._wanted = np.maximum(few, np.rint(ANCHOR_SHARE * self._sizes)).astype(np.int64)
        # What a further anchor must reach.
        self._least = np.full(len(self._sizes), -np.inf) if least is None else least.copy()
        # Columns of what may still be anchors: bin, label, prediction.
        self._candidates: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def add(self, prediction: np.ndarray, label: np.ndarray, half: np.ndarray) -> None:
        """Add a block: the samples' predictions ``(rows, classes)``, labels and halves.

        Predictions come from the other half, so that no label has a part in choosing itself.
        """
        for side in (0, 1):
            rows = np.flatnonzero(half == side)
            shown = prediction if len(rows) == len(half) else prediction[rows]
            first = side * self._n_classes
            least = self._least[first : first + self._n_classes]
            self._raise(least, shown, self._wanted[first : first + self._n_classes])
            row, column = np.nonzero(shown >= least.astype(shown.dtype))
            self._candidates.append((first + column, label[rows[row]], shown[row, column]))
        if sum(len(bins) for bins, _, _ in self._candidates) > 2 * self._wanted.sum():
            self._prune()

    @classmethod
    def joined(cls, states: Sequence["Anchors"]) -> "Anchors":
        """Return the anchors of the samples of all `states`, which are in their order."""
        whole = cls(states[0]._sizes.reshape(2, -1))
        for state in states:
            whole._least = np.maximum(whole._least, state._least)
            whole._candidates += state._candidates
        whole._prune()
        return whole

    def guess(self, prediction: np.ndarray, half: np.ndarray) -> np.ndarray:
        """Return what anchors must reach, in nearly all cases, by a random part of the samples."""
        part = Anchors(self._sizes.reshape(2, -1))
        members = np.repeat(self._sizes.reshape(2, -1).sum(axis=1), self._n_classes)
        share = np.repeat(np.bincount(half, minlength=2), self._n_classes) / np.maximum(members, 1)
        wanted = share * self._wanted
        # Four standard errors more: a guess that is too high costs another pass.
        part._wanted = np.ceil(wanted + 4 * np.sqrt(wanted) + 4).astype(np.int64)
        # The labels of anchors have no part in what these reach.
        part.add(prediction, np.zeros(len(half), dtype=np.int64), half)
        part._prune()
        return part._least

    @property
    def complete(self) -> bool:
        """Whether all anchors are here; without a guess, they always are once all is added."""
        self._prune()
        count = np.bincount(self._candidates[0][0], minlength=len(self._wanted))
        members = self._sizes.reshape(2, -1).sum(axis=1, keepdims=True)
        expected = np.minimum(self._wanted.reshape(2, -1), members).reshape(-1)
        return bool((count >= expected).all())

    def counts(self) -> csr_array:
        """Return the number of anchors of each class (row) that have each label (column)."""
        self._prune()
        bins, label, _ = self._candidates[0]
        c = self._n_classes
        # Equal entries are added up.
        return coo_array((np.ones(len(bins)), (bins % c, label)), shape=(c, c)).tocsr()

    @staticmethod
    def _raise(least: np.ndarray, shown: np.ndarray, wanted: np.ndarray) -> None:
        """Set, where nothing is known yet, what an anchor must reach by this block alone."""
        for k in np.flatnonzero(np.isneginf(least) & (wanted > 0) & (wanted < len(shown))):
            place = len(shown) - wanted[k]
            least[k] = np.partition(shown[:, k], place)[place]
        least[wanted == 0] = np.inf

    def _prune(self) -> None:
        """Keep the anchors of the samples so far, the first of those that tie."""
        if not self._candidates:
            empty = np.empty(0, dtype=np.int64)
            self._candidates = [(empty, empty, np.empty(0))]
        bins, label, shown = (np.concatenate(part) for part in zip(*self._candidates, strict=True))
        # lexsort is stable, and takes its last key as the first one to sort by.
        order = np.lexsort((-shown, bins))
        bins = bins[order]
        rank = np.arange(len(bins)) - np.searchsorted(bins, bins)
        last = rank == self._wanted[bins] - 1
        self._least[bins[last]] = shown[order[last]]
        kept = rank < self._wanted[bins]
        order = order[kept]
        self._candidates = [(bins[kept], label[order], shown[order])]


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


def wilson_interval(counts: np.ndarray, total: np.ndarray, z: float = 1.96) -> np.ndarray:
    """Return Wilson's two-sided interval for ``counts / total``, low and high along a first axis.

    `z` is its half width in standard errors, by default that of 95 %. It works elementwise, and
    stays inside [0, 1].

    >>> low, high = wilson_interval(np.array([0, 5]), np.array([10, 10]))
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.0, 0.237], [0.278, 0.763])
    """
    # Without observations: the interval of 0 in 1, where 0 / 0 would give nan.
    total = np.maximum(total, 1.0)
    share = counts / total
    scale = 1.0 + z**2 / total
    middle = (share + z**2 / (2 * total)) / scale
    reach = z * np.sqrt(share * (1 - share) / total + z**2 / (4 * total**2)) / scale
    return np.stack([np.maximum(0.0, middle - reach), np.minimum(1.0, middle + reach)])
