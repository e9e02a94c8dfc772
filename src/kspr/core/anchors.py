"""The samples that look most like each class: their labels show how labels go wrong.

They are found in one pass over blocks of samples, and nothing but the best ones so far is kept.
"""

import numpy as np
from scipy.sparse import coo_array, csr_array

__all__ = ["ANCHOR_SHARE", "MANY_CLASSES", "Anchors", "count_anchors"]

ANCHOR_SHARE = 0.06
"""Share of a class that serves as anchors: fewer are purer, more are surer."""
_LEAST_ANCHORS = 15
"""Per class and half, unless that were more than a fifth of them."""
MANY_CLASSES = 1024
"""More classes than this have a sparse table of counts: a full one would take over 8 MB."""


def count_anchors(
    prediction: np.ndarray, label: np.ndarray, half: np.ndarray, n_classes: int
) -> np.ndarray | csr_array:
    """Count the labels of the samples that look most like each class: ``(class, label)``.

    `prediction` comes from the other half, so a sample's own label has no part in choosing it.
    """
    anchors = Anchors(label, half, n_classes)
    anchors.add(prediction, label, half)
    return anchors.counts()


class Anchors:
    """The labels of the anchors among the samples that were added so far.

    `label` and `half` are those of all samples that will be added: they set how many anchors a
    class has in a half. Blocks may have any size. Of samples that tie at the border those that were
    added first are anchors, so blocks are added, and states merged, in the order of the samples.
    """

    def __init__(self, label: np.ndarray, half: np.ndarray, n_classes: int) -> None:
        self._n_classes = n_classes
        # A bin is a class in a half.
        sizes = np.concatenate(
            [np.bincount(label[half == side], minlength=n_classes) for side in (0, 1)]
        )
        few = np.minimum(_LEAST_ANCHORS, np.ceil(sizes / 5))
        self._wanted = np.maximum(few, np.rint(ANCHOR_SHARE * sizes)).astype(np.int64)
        self._least = np.full(2 * n_classes, -np.inf)  # what a further anchor must reach
        # Columns of what may still be anchors: bin, label, prediction.
        self._found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def add(self, prediction: np.ndarray, label: np.ndarray, half: np.ndarray) -> None:
        """Add a block: the samples' predictions ``(rows, classes)``, labels and halves."""
        for side in (0, 1):
            rows = np.flatnonzero(half == side)
            shown = prediction if len(rows) == len(half) else prediction[rows]
            first = side * self._n_classes
            least = self._least[first : first + self._n_classes]
            self._raise(least, shown, self._wanted[first : first + self._n_classes])
            row, column = np.nonzero(shown >= least.astype(shown.dtype))
            self._found.append((first + column, label[rows[row]], shown[row, column]))
        if sum(len(bins) for bins, _, _ in self._found) > 2 * self._wanted.sum():
            self._prune()

    def merge(self, other: "Anchors") -> None:
        """Add what `other` has found among samples that come after these."""
        self._least = np.maximum(self._least, other._least)
        self._found += other._found
        self._prune()

    def counts(self) -> np.ndarray | csr_array:
        """Return the number of anchors of each class (row) that have each label (column).

        Counts of very many classes are sparse.
        """
        self._prune()
        bins, label, _ = self._found[0]
        c = self._n_classes
        if c > MANY_CLASSES:
            # Equal entries are added up.
            return coo_array((np.ones(len(bins)), (bins % c, label)), shape=(c, c)).tocsr()
        pair = (bins % c) * c + label
        return np.bincount(pair, minlength=c * c).reshape(c, c).astype(np.float64)

    @staticmethod
    def _raise(least: np.ndarray, shown: np.ndarray, wanted: np.ndarray) -> None:
        """Set, where nothing is known yet, what an anchor must reach by this block alone."""
        for k in np.flatnonzero(np.isneginf(least) & (wanted > 0) & (wanted < len(shown))):
            place = len(shown) - wanted[k]
            least[k] = np.partition(shown[:, k], place)[place]
        least[wanted == 0] = np.inf

    def _prune(self) -> None:
        """Keep the anchors of the samples so far, the first of those that tie."""
        if not self._found:
            empty = np.empty(0, dtype=np.int64)
            self._found = [(empty, empty, np.empty(0))]
        bins, label, shown = (np.concatenate(part) for part in zip(*self._found, strict=True))
        # lexsort is stable, and takes its last key as the first one to sort by.
        order = np.lexsort((-shown, bins))
        bins = bins[order]
        rank = np.arange(len(bins)) - np.searchsorted(bins, bins)
        last = rank == self._wanted[bins] - 1
        self._least[bins[last]] = shown[order[last]]
        kept = rank < self._wanted[bins]
        order = order[kept]
        self._found = [(bins[kept], label[order], shown[order])]
