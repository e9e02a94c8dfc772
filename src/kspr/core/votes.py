"""Votes of neighbours: how often each label is given to the nearest rows of the other half.

A linear fit draws straight borders between classes; neighbours know of others. Like the fit, they
stand in the half that a row is not in, so that a row's own label has no part in its votes.
"""

import numpy as np

from kspr.core.arrays import row_blocks
from kspr.core.transition import Transition

WIDTH = 64
"""Components by which rows are compared; with 512 the order is no better, and takes four times as
long."""
_REFERENCES = 25_000
"""Rows of a half among which neighbours are looked for: the cost per row does not grow further."""
_WEIGHT = 0.5
"""What the log-odds of the votes count beside those of the fit, which has seen the same labels."""


def count_votes(
    rows: np.ndarray,
    label: np.ndarray,
    half: np.ndarray,
    n_classes: int,
    k: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return how many of the `k` nearest rows in the other half have each label, as shares.

    `rows` are compared by their distance; the answer is ``(rows, classes)``.

    >>> rows = np.array([[0.0], [0.1], [5.0], [5.1]])
    >>> half, label = np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
    >>> count_votes(rows, label, half, 2, 1, np.random.default_rng(0)).tolist()
    [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]
    """
    from sklearn.neighbors import NearestNeighbors  # takes long to import, and few ask for it

    votes = np.zeros((len(rows), n_classes), dtype=np.float32)
    for side in (0, 1):
        asking, others = np.flatnonzero(half == side), np.flatnonzero(half != side)
        others = rng.permutation(others)[:_REFERENCES]
        # Trees do not help in so many dimensions.
        index = NearestNeighbors(n_neighbors=min(k, len(others)), algorithm="brute")
        index.fit(rows[others])
        for block in row_blocks(len(asking), len(others)):
            mine = asking[block]
            labels = label[others][index.kneighbors(rows[mine], return_distance=False)]
            place = np.arange(len(mine))[:, None] * n_classes + labels
            counts = np.bincount(place.ravel(), minlength=len(mine) * n_classes)
            votes[mine] = counts.reshape(-1, n_classes) / labels.shape[1]
    return votes


def with_votes(right: np.ndarray, votes: np.ndarray, noise: Transition, k: int) -> np.ndarray:
    """Return each class's chance to be right as the label, with the votes of `k` neighbours.

    `right` is that of the noise model. The votes are of labels, and some
    of these are wrong: the transition matrix tells which true classes they come from. Half of the
    log-odds that follow are added to those of the fit.
    """
    # From shares of labels to shares of classes, with one vote spread over all of these.
    share = np.maximum(noise.unmix(votes), 0.0) + 1.0 / k
    share /= share.sum(axis=1, keepdims=True)
    voted = share * noise.right / np.maximum(noise.mix(share), 1e-30)
    odds = _odds(right) * _odds(voted) ** _WEIGHT
    return np.asarray(odds / (1.0 + odds), dtype=right.dtype)


def _odds(chance: np.ndarray) -> np.ndarray:
    return np.asarray(np.maximum(chance, 1e-7) / np.maximum(1.0 - chance, 1e-7))
