"""Area under the margin (Pleiss et al. 2020), of a softmax model on the features."""

from dataclasses import dataclass

import numpy as np

from kspr.experiments.compare.peers.shared import Judged, Shared, centred

__all__ = ["Margins", "area_under_margin"]

_STREAM = 3471
"""Keeps our draws apart from those of a user who seeds with the same number."""


@dataclass(frozen=True)
class Margins:
    """Drop a sample whose label leads by less, on average over training, than a made-up one.

    Threshold samples, one in ``n_classes + 1``, get a class of their own that means nothing.
    The `percentile` of their areas is the cut for the others. As in the paper this is done
    twice with other threshold samples, so that every sample is judged once.
    """

    epochs: int = 20
    batch: int = 128
    learning_rate: float = 0.01
    momentum: float = 0.9
    weight_decay: float = 1e-4
    percentile: float = 99.0

    def judge(self, shared: Shared, *, seed: int) -> Judged:
        """Keep what lies above the cut; rank by the distance below it."""
        n, c = len(shared.y), shared.n_classes
        rng = np.random.default_rng([_STREAM, seed])
        order = rng.permutation(n)
        size = max(1, n // (c + 1))
        below = np.empty(n)
        X = centred(shared.X)
        for turn, made_up in enumerate((order[:size], order[size : 2 * size])):
            labels = shared.y.copy()
            labels[made_up] = c
            area = area_under_margin(X, labels, c + 1, self, rng)
            judged = np.ones(n, dtype=bool) if turn == 0 else np.isin(np.arange(n), order[:size])
            judged[made_up] = False
            below[judged] = np.percentile(area[made_up], self.percentile) - area[judged]
        return Judged(below <= 0, below)


def area_under_margin(
    X: np.ndarray, y: np.ndarray, n_classes: int, how: Margins, rng: np.random.Generator
) -> np.ndarray:
    """Return each sample's margin, own logit less the largest other, averaged over epochs.

    A margin is taken when its sample comes up in training, before the step that it takes part in.
    """
    weights = np.zeros((X.shape[1], n_classes))
    bias = np.zeros(n_classes)
    pushes = np.zeros_like(weights), np.zeros_like(bias)
    total = np.zeros(len(y))
    for _ in range(how.epochs):
        order = rng.permutation(len(y))
        for start in range(0, len(y), how.batch):
            rows = order[start : start + how.batch]
            own = np.arange(len(rows)), y[rows]
            logits = X[rows] @ weights + bias
            total[rows] += _margin(logits, own)
            error = np.exp(logits - logits.max(axis=1, keepdims=True))
            error /= error.sum(axis=1, keepdims=True)
            error[own] -= 1.0
            slopes = X[rows].T @ error / len(rows), error.mean(axis=0)
            for value, push, slope in zip((weights, bias), pushes, slopes, strict=True):
                push *= how.momentum
                push += slope + how.weight_decay * value
                value -= how.learning_rate * push
    return total / how.epochs


def _margin(logits: np.ndarray, own: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    others = logits.copy()
    others[own] = -np.inf
    return np.asarray(logits[own] - others.max(axis=1))
