"""SimiFeat (Zhu, Dong and Liu 2022): wrong labels from the labels of nearest rows, no training.

Two rules on one idea, that a row and its two nearest rows share their true class. `vote` drops a
label that another one outnumbers among the nearest rows. `rank` estimates how labels go wrong from
triples of labels, and drops that share of each class.

Written from the paper, and simpler than the authors' code in four points: one round on all rows
instead of many on random parts; features as they are, without augmented images; Euclidean
distances instead of cosines; and the transition matrix by expectation maximisation on the triples,
where the authors descend on the frequencies of agreement.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from kspr.experiments.compare.peers.others import votes_of
from kspr.experiments.compare.peers.shared import Judged, Shared

__all__ = ["SimiFeat", "fit_triples"]

_ROUNDS = 300
_CONVERGED = 1e-6
_FIRST_RIGHT = 0.7
"""Share of right labels that the search starts from: more than half keeps the classes in place."""


@dataclass(frozen=True)
class SimiFeat:
    """Keep labels by the votes of the `k` nearest rows, the authors' number."""

    rule: Literal["vote", "rank"]
    k: int = 10

    def judge(self, shared: Shared, *, seed: int) -> Judged:
        """Keep by the rule; rank by how little the votes resemble the label."""
        del seed
        y, n_classes = shared.y, shared.n_classes
        around = shared.neighbours(self.k)
        votes = votes_of(y[around], n_classes)
        own = votes[np.arange(len(y)), y]
        # The cosine of the angle between the votes and the label as an indicator.
        score = own / np.linalg.norm(votes, axis=1)
        share, matrix = fit_triples(np.column_stack([y, y[around[:, :2]]]), n_classes)
        rate = float(1.0 - share @ np.diag(matrix))
        if self.rule == "vote":
            return Judged(own == votes.max(axis=1), -score, rate)
        return Judged(_best_of_each(score, y, share, matrix), -score, rate)


def _best_of_each(
    score: np.ndarray, y: np.ndarray, share: np.ndarray, matrix: np.ndarray
) -> np.ndarray:
    """Keep, of each class, as many of the highest scores as labels are estimated to be right."""
    kept = np.zeros(len(y), dtype=bool)
    seen = share @ matrix
    for k in range(len(share)):
        rows = np.flatnonzero(y == k)
        # Bayes: P(class k | label k).
        right = share[k] * matrix[k, k] / max(seen[k], 1e-12)
        kept[rows[np.argsort(-score[rows], kind="stable")[: round(right * len(rows))]]] = True
    return kept


def fit_triples(triples: np.ndarray, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the share of each true class, and the chance of each label given the true class.

    The three labels of a row of `triples` are taken as three draws for one true class. Then the
    frequencies of triples identify the matrix, without a row whose class is known.
    """
    counts = votes_of(triples, n_classes).astype(np.float64)
    # The same counts come again and again where classes are few.
    counts, times = np.unique(counts, axis=0, return_counts=True)
    share = counts.T @ times / triples.size
    matrix = np.full((n_classes, n_classes), (1.0 - _FIRST_RIGHT) / max(1, n_classes - 1))
    np.fill_diagonal(matrix, _FIRST_RIGHT)
    for _ in range(_ROUNDS):
        logs = counts @ np.log(np.maximum(matrix, 1e-12)).T + np.log(np.maximum(share, 1e-12))
        part = np.exp(logs - logs.max(axis=1, keepdims=True))
        part *= times[:, None] / part.sum(axis=1, keepdims=True)
        share = part.sum(axis=0) / times.sum()
        new = part.T @ counts
        new /= np.maximum(new.sum(axis=1, keepdims=True), 1e-12)
        moved = float(np.abs(new - matrix).max())
        matrix = new
        if moved < _CONVERGED:
            break
    return np.asarray(share), np.asarray(matrix)
