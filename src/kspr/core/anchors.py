"""The samples that look most like each class: their labels show how labels go wrong.

One pass over blocks of samples finds them, and holds nothing but the best ones so far.
"""

import numpy as np
from scipy.sparse import coo_array, csr_array

__all__ = ["ANCHOR_SHARE", "Anchors", "bin_sizes"]

ANCHOR_SHARE = 0.06
"""Share of a class that serves as anchors: fewer are purer, more are surer."""
_LEAST_ANCHORS = 15
"""Per class and half, unless that were more than a fifth of them."""


def bin_sizes(label: np.ndarray, half: np.ndarray, n_classes: int) -> np.ndarray:
    """Return how many samples of each class are in each half: ``(2, classes)``."""
    return np.stack([np.bincount(label[half == side], minlength=n_classes) for side in (0, 1)])


class Anchors:
    """The labels of the anchors among the samples that were added so far.

    `sizes` are the `bin_sizes` of all samples that will be added: they set how many anchors a class
    has in a half. Blocks may have any size. Of samples that tie at the border those that were added
    first are anchors, so blocks are added, and states merged, in the order of the samples.

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
        """Add a block: the samples' predictions ``(rows, classes)``, labels and halves."""
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

    def merge(self, other: "Anchors") -> None:
        """Add the anchors of `other`, whose samples come after these."""
        self._least = np.maximum(self._least, other._least)
        self._candidates += other._candidates
        self._prune()

    def fresh(self) -> "Anchors":
        """Return a state for the same samples before any is added."""
        return Anchors(self._sizes.reshape(2, -1))

    def of_part(self, share: float) -> "Anchors":
        """Return a state for a random part, a `share` of the samples, to find a guess by.

        Its `least` is what an anchor of all samples must reach, in nearly all cases.
        """
        part = self.fresh()
        wanted = share * self._wanted
        # Four standard errors more: a guess that is too high costs another pass.
        part._wanted = np.ceil(wanted + 4 * np.sqrt(wanted) + 4).astype(np.int64)
        return part

    @property
    def least(self) -> np.ndarray:
        """What a further anchor of each bin would have to reach; -inf where any would be one."""
        self._prune()
        return self._least.copy()

    @property
    def complete(self) -> bool:
        """Whether all anchors are here; without a guess, they always are once all is added."""
        self._prune()
        held = np.bincount(self._candidates[0][0], minlength=len(self._wanted))
        members = self._sizes.reshape(2, -1).sum(axis=1, keepdims=True)
        possible = np.minimum(self._wanted.reshape(2, -1), members).reshape(-1)
        return bool((held >= possible).all())

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
