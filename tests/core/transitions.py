"""Transition matrices and counts of anchors to test with."""

import numpy as np

from kspr.core.grading import Grading
from kspr.core.transition import Anchors, Transition, bin_sizes

__all__ = ["anchors_of", "drawn_anchors", "transition_levels", "transition_of"]


def drawn_anchors(rng: np.random.Generator, matrix: np.ndarray, each: int) -> np.ndarray:
    return np.stack([rng.multinomial(each, row) for row in matrix]).astype(float)


def transition_of(
    matrix: np.ndarray, error: float = 0.0, counts: np.ndarray | None = None
) -> Transition:
    right = np.diag(matrix)
    own = matrix - np.diag(right)
    counts = matrix if counts is None else counts
    return Transition(right, np.zeros_like(right), own, error, counts)


def anchors_of(
    prediction: np.ndarray, label: np.ndarray, half: np.ndarray, n_classes: int
) -> np.ndarray:
    """Return the counts of anchors of rows that are added at once."""
    anchors = Anchors(bin_sizes(label, half, n_classes))
    anchors.add(prediction, label, half)
    return anchors.counts().toarray()


def transition_levels(
    right: np.ndarray, label: np.ndarray, transition: Transition, *, pooled: bool
) -> np.ndarray:
    """Return the smallest level at which each sample is kept, counted at once."""
    grading = Grading(right.shape[1], len(label), transition, pooled=pooled)
    tally, grade = grading.count(right, label)
    return grading.levels(tally).of(grade, label)
