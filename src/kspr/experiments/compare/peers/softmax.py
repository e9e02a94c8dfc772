"""Methods that train a softmax model on the features and their labels as they are.

- `Margins`: area under the margin (Pleiss et al. 2020), with made-up labels as the threshold.
- `LogitMargin`: the same margin, averaged over the epochs, and cut at 0.
- `Logistic`: multinomial logistic regression that ignores the noise.
"""

from dataclasses import dataclass

import numpy as np
from sklearn.linear_model import LogisticRegression

from kspr.experiments.compare.peers.shared import Judged, Shared, centred

__all__ = ["Logistic", "LogitMargin", "Margins"]

_STREAM = 3471
"""First number of the seed of all draws: a user may seed other draws with the second."""


@dataclass(frozen=True)
class Margins:
    """Drop a sample whose margin, averaged over training, is below that of made-up labels.

    Threshold samples, one in ``n_classes + 1``, get the label of an extra class that means
    nothing. The `percentile` of their areas is the cut-off for the others. As in the paper this is
    done twice with different threshold samples, so that every sample is judged once.
    """

    epochs: int = 20
    batch: int = 128
    learning_rate: float = 0.01
    momentum: float = 0.9
    weight_decay: float = 1e-4
    percentile: float = 99.0

    def judge(self, shared: Shared, *, seed: int) -> Judged:
        """Keep areas above the cut-off; rank by the distance below it."""
        n, c = len(shared.y), shared.n_classes
        rng = np.random.default_rng([_STREAM, seed])
        order = rng.permutation(n)
        # As many as a class has on average, the made-up class counted in.
        size = max(1, n // (c + 1))
        below = np.empty(n)
        X = centred(shared.X)
        for turn, made_up in enumerate((order[:size], order[size : 2 * size])):
            labels = shared.y.copy()
            labels[made_up] = c
            area = area_under_margin(X, labels, c + 1, self, rng)
            # The second turn judges only what were threshold samples in the first.
            judged = np.ones(n, dtype=bool) if turn == 0 else np.isin(np.arange(n), order[:size])
            judged[made_up] = False
            below[judged] = np.percentile(area[made_up], self.percentile) - area[judged]
        return Judged(below <= 0, below)


@dataclass(frozen=True)
class LogitMargin:
    """Drop a sample whose own logit was, over the epochs of training, mostly not the largest.

    The margin is in-sample: the model is trained on the very labels that it judges, and stops
    before it learns the wrong ones by heart.
    """

    how: Margins = Margins()

    def judge(self, shared: Shared, *, seed: int) -> Judged:
        """Keep positive margins; rank by the margin."""
        rng = np.random.default_rng([_STREAM, seed])
        X = centred(shared.X)
        margin = area_under_margin(X, shared.y, shared.n_classes, self.how, rng)
        return Judged(margin > 0, -margin)


@dataclass(frozen=True)
class Logistic:
    """Keep the labels that a logistic regression, trained on all of them, predicts itself."""

    def judge(self, shared: Shared, *, seed: int) -> Judged:
        """Keep labels with the largest probability; rank by how far theirs is behind."""
        del seed
        model = LogisticRegression(max_iter=200).fit(centred(shared.X), shared.y)
        margin = _margin(
            model.predict_proba(centred(shared.X)), (np.arange(len(shared.y)), shared.y)
        )
        return Judged(margin >= 0, -margin)


def area_under_margin(
    X: np.ndarray, y: np.ndarray, n_classes: int, how: Margins, rng: np.random.Generator
) -> np.ndarray:
    """Return each sample's margin, own logit minus the largest other, averaged over epochs.

    The margin of a sample is measured in every epoch just before the step that uses the sample.
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
            # Softmax without overflow; less one at the own class, the slope of cross-entropy.
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
