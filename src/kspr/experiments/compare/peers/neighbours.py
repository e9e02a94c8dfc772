"""Plain disagreement with the nearest neighbours."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from kspr.experiments.compare.peers.shared import NEIGHBOURS, Judged, Shared, nearest_rows

__all__ = ["Neighbours", "TopoFilter", "largest_components", "votes_of"]


@dataclass(frozen=True)
class Neighbours:
    """Keep a label that no other has more of among the `k` nearest rows."""

    k: int = NEIGHBOURS

    def judge(self, shared: Shared, *, seed: int) -> Judged:
        """Keep what its neighbours agree with; rank by their majority against the label."""
        del seed
        votes = votes_of(shared.y[shared.neighbours(self.k)], shared.n_classes)
        rows = np.arange(len(votes))
        own, most = votes[rows, shared.y], votes.max(axis=1)
        votes[rows, shared.y] = -1
        return Judged(own == most, (votes.max(axis=1) - own).astype(float))


def votes_of(labels: np.ndarray, n_classes: int) -> np.ndarray:
    """Count each label in each row of `labels`: ``(rows, n_classes)``."""
    n = len(labels)
    flat = np.arange(n)[:, None] * n_classes + labels
    return np.bincount(flat.ravel(), minlength=n * n_classes).reshape(n, n_classes)


@dataclass(frozen=True)
class TopoFilter:
    """Keep the largest connected component of every class, then peel off its outliers.

    Numbers are the authors' defaults. `mutual` links two rows only if each is among the
    other's nearest; the authors' code asks it of one of them.
    """

    k: int = 4
    k_outlier: int = 32
    agreement: float = 0.5
    mutual: bool = False

    def judge(self, shared: Shared, *, seed: int) -> Judged:
        """Keep core samples whose core neighbours agree; rank by disagreement, cores last."""
        del seed
        y, n_classes = shared.y, shared.n_classes
        # One search serves both: the nearest come first.
        index = shared.neighbours(max(self.k, self.k_outlier))
        core = largest_components(index[:, : self.k], y, mutual=self.mutual)
        rows = np.flatnonzero(core)
        k = min(self.k_outlier, len(rows) - 1)
        clean = core.copy()
        suspicion = 1.0 + _disagreement(y[index[:, : self.k_outlier]], y, n_classes)[0]
        if k > 0:
            around = y[rows][nearest_rows(shared.X[rows], k)]
            share, ahead = _disagreement(around, y[rows], n_classes)
            clean[rows] = ahead & (1.0 - share >= self.agreement)
            suspicion[rows] = share
        return Judged(clean, suspicion)


def largest_components(index: np.ndarray, y: np.ndarray, *, mutual: bool) -> np.ndarray:
    """Return which rows are in the largest component of their class's part of the graph.

    `index` holds each row's nearest rows, of whatever class. Of components of one size, the one
    with the smallest row number is taken.
    """
    n, k = index.shape
    source, target = np.repeat(np.arange(n), k), index.ravel()
    same = y[source] == y[target]
    one_way = csr_array((np.ones(same.sum(), np.int8), (source[same], target[same])), shape=(n, n))
    graph = one_way.multiply(one_way.T) if mutual else one_way
    _, component = connected_components(graph, directed=False)
    size = np.bincount(component)
    # Edges stay inside a class, so a component's class is that of its first row.
    first = np.full(len(size), n)
    np.minimum.at(first, component, np.arange(n))
    order = np.lexsort((first, -size, y[first]))
    leads = np.diff(y[first[order]], prepend=-1) != 0
    return np.asarray(np.isin(component, order[leads]))


def _disagreement(
    around: np.ndarray, y: np.ndarray, n_classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the share of other labels around, and whether none of them outnumbers one's own."""
    votes = votes_of(around, n_classes)
    own = votes[np.arange(len(y)), y]
    return 1.0 - own / around.shape[1], own == votes.max(axis=1)
