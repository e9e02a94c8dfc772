"""Plain disagreement with the nearest neighbours."""

from dataclasses import dataclass

import numpy as np

from kspr.experiments.peers.peer import Judged
from kspr.experiments.peers.shared import NEIGHBOURS, Shared

__all__ = ["Neighbours", "votes_of"]


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
