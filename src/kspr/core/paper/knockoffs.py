"""Knockoff labels, the statistics W that compare labels with them, and cut-offs on W.

A cut group is what is cut together: one class in one half of a piece, or a whole half. By Eq. T the
estimated FSR at t is ``(1 + #{0 < W <= t}) / max(1, #{-t <= W < 0})``; the cut-off is the
largest t at which it stays within the level, and the cut group keeps ``-T <= W < 0``. All levels
are covered at once by the smallest one at which a sample is kept: its q-value.
"""

from typing import Protocol

import numpy as np

from kspr.core.arrays import one_hot, rank_within, reachable
from kspr.core.paper.selection_times import Penalty, group
from kspr.core.regression import closed_form_times
from kspr.errors import InputError

LEVELS = np.arange(1, 26) / 50
"""The paper's levels: 0.02 in steps of 0.02 to 0.5."""


def random_labels(labels: np.ndarray, n_classes: int, draws: np.ndarray) -> np.ndarray:
    """Return, for each label, one of the ``n_classes - 1`` others with equal chance.

    `draws` are uniform on [0, 1), one per label: the caller owns the randomness, so a sample's
    knockoff does not depend on what it is processed with.
    """
    # A step of 1 to c - 1 around the circle of classes never comes back to the label.
    step = 1 + (draws * (n_classes - 1)).astype(np.int64)
    return np.asarray((labels + step) % n_classes)


def penalised_times(prediction: np.ndarray, labels: np.ndarray, penalty: Penalty) -> np.ndarray:
    """Return ``Z_j = |y_j - x_j beta|`` in the penalty's own norm: ``(pieces, rows)``."""
    if penalty is group:
        return closed_form_times(prediction, labels)
    residual = one_hot(labels, prediction.shape[-1], np.float64) - prediction.astype(np.float64)
    # Under the lasso a row is selected together with the first of its entries.
    return np.asarray(np.max(penalty(residual), axis=-1))


class Statistic(Protocol):
    """Turn the times of label and knockoff into W: negative where the label is ahead."""

    def __call__(self, Z: np.ndarray, Z_tilde: np.ndarray) -> np.ndarray:
        """Return W, elementwise."""
        ...


def asymmetric(Z: np.ndarray, Z_tilde: np.ndarray) -> np.ndarray:
    """Return ``Z sign(Z - Z~)``, the paper's Eq. W: only the label's own time is a size."""
    return np.asarray(Z * np.sign(Z - Z_tilde))


def symmetric_max(Z: np.ndarray, Z_tilde: np.ndarray) -> np.ndarray:
    """Return ``max(Z, Z~) sign(Z - Z~)``, the classical knockoff statistic."""
    return np.asarray(np.maximum(Z, Z_tilde) * np.sign(Z - Z_tilde))


def symmetric_min(Z: np.ndarray, Z_tilde: np.ndarray) -> np.ndarray:
    """Return ``min(Z, Z~) sign(Z - Z~)``: symmetric, and small for clean samples."""
    return np.asarray(np.minimum(Z, Z_tilde) * np.sign(Z - Z_tilde))


STATISTICS: dict[str, Statistic] = {
    "asymmetric": asymmetric,
    "symmetric_max": symmetric_max,
    "symmetric_min": symmetric_min,
}


def q_values(W: np.ndarray, cut_groups: np.ndarray) -> np.ndarray:
    """Return the smallest level at which Eq. T keeps each sample; inf for one that never is."""
    size = np.abs(np.asarray(W, dtype=np.float64))
    # lexsort takes its last key as the first one to sort by.
    order = np.lexsort((size, cut_groups))
    cut_group, size, sign = cut_groups[order], size[order], np.sign(W[order])
    first = np.searchsorted(cut_group, cut_group)  # where each position's cut group begins
    ahead, behind = (_running_count(hit, first) for hit in (sign < 0, sign > 0))
    estimate = (1.0 + behind) / np.maximum(ahead, 1.0)
    # Tied |W| enter together: cutting inside a tie would let the sort order pick samples. And
    # Eq. T has t > 0: W = 0 is on neither side.
    inside = np.zeros(len(size), dtype=bool)
    inside[:-1] = (size[1:] == size[:-1]) & (cut_group[1:] == cut_group[:-1])
    estimate[inside | (size == 0)] = np.inf
    levels = np.full(len(size), np.inf)
    levels[order] = _reachable_by_group(estimate, cut_group)
    return np.where(W < 0, levels, np.inf)


def first_level(smallest: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return the first of ascending `levels` that is not below `smallest`; nan where none is."""
    position = np.searchsorted(levels, smallest)
    # What lies above the last level, inf included, falls on the nan behind it.
    return np.concatenate([levels, [np.nan]])[position]


def theorem_factor(n_classes: int, kappa: float | None = None) -> float:
    """Return the factor that Theorem 2 puts on q: ``(c-2+2k) / (2(c-2k))``.

    Without `kappa` the paper's worst case, 0, is taken; that needs more than two classes.
    """
    if kappa is None:
        if n_classes <= 2:
            raise InputError(
                "control='theorem' covers two classes only with kappa, the chance that a wrong "
                f"label loses to a right knockoff; got {n_classes} classes. Pass kappa, or "
                "another control."
            )
        kappa = 0.0
    elif not 0 <= kappa < 1:
        raise InputError(f"kappa must lie in [0, 1), got {kappa}. It is a probability.")
    # The first 2 below the line pays for the two halves, each of which has a cut-off of its own.
    return (n_classes - 2 + 2 * kappa) / (2 * (n_classes - 2 * kappa))


def best_half(W: np.ndarray, cut_groups: np.ndarray, n_cut_groups: int) -> np.ndarray:
    """Mark the half of each cut group that is most likely clean: small negative W first.

    Labels that beat their knockoff come before those that lost to it; within either side a
    smaller magnitude comes first.
    """
    behind = (W >= 0).astype(cut_groups.dtype)
    # Two bins per cut group, the labels that are ahead first.
    rank, sizes = rank_within(np.abs(W), 2 * cut_groups + behind, 2 * n_cut_groups)
    ahead_size, size = sizes[0::2], sizes[0::2] + sizes[1::2]
    rank = rank + behind * ahead_size[cut_groups]
    # Rounded up: a cut group of one row keeps it.
    return np.asarray(rank < ((size + 1) // 2)[cut_groups])


def _running_count(hit: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Return how many hits a cut group has had up to and including each position."""
    total = np.concatenate([[0], np.cumsum(hit)])
    return np.asarray(total[1:] - total[first])


def _reachable_by_group(estimate: np.ndarray, cut_group: np.ndarray) -> np.ndarray:
    """Return `reachable` of each cut group; cut groups stand one behind the other."""
    # Ranked over all, with every cut group's ranks above those of the groups before it, the running
    # minimum from the end stays inside a cut group.
    order = np.lexsort((estimate, cut_group))
    rank = np.empty(len(cut_group), dtype=np.int64)
    rank[order] = np.arange(len(cut_group))
    return np.asarray(estimate[order][reachable(rank)])
