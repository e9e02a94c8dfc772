"""TopoFilter (Wu et al. 2020): clean samples of a class hang together in feature space."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from kspr.experiments.peers.neighbours import votes_of
from kspr.experiments.peers.peer import Judged
from kspr.experiments.peers.shared import Shared, nearest_rows

__all__ = ["TopoFilter", "largest_components"]


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
