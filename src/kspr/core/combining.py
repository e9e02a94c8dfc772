"""Several splits of the same data, combined through e-values."""

import numpy as np

from kspr.core.cutoffs import reachable

__all__ = ["combine_levels"]


def combine_levels(levels: np.ndarray, cells: np.ndarray, level: float) -> np.ndarray:
    """Return the smallest level at which each sample is kept, given those of every split.

    `levels` is ``(splits, samples)``. In a split that keeps K of a cell's m samples at `level`,
    where V of them are expected to be wrong, a kept sample has the e-value ``m / (1 + V)`` and
    any other has 0: their sum over the wrong labels is at most m on average. So is that of
    their mean over splits, and the largest r samples with mean at least ``m / (r q)`` are kept at
    q (e-BH; Ren and Barber's way to take the randomness out of knockoffs). A `level` somewhat below
    q leaves room for samples that not every split keeps.
    """
    combined = np.full(levels.shape[1], np.inf)
    for cell in np.unique(cells):
        member = np.flatnonzero(cells == cell)
        evidence = np.mean([_evidence(own[member], level) for own in levels], axis=0)
        order = np.argsort(-evidence, kind="stable")
        ordered = evidence[order]
        # Ties enter together: the last of equals has the rank that counts.
        rank = np.searchsorted(-ordered, -ordered, side="right")
        with np.errstate(divide="ignore"):
            estimate = len(member) / (rank * ordered)
        combined[member[order]] = reachable(estimate)
    return combined


def _evidence(levels: np.ndarray, level: float) -> np.ndarray:
    kept = levels <= level
    if not kept.any():
        return np.zeros(len(levels))
    return np.where(kept, len(levels) / (kept.sum() * levels[kept].max()), 0.0)
