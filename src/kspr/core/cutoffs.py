"""Cut-offs on W: exactly Eq. T, for every cut group in one pass.

A cut group is what is cut together: one class in one half of a piece, or a whole half. The
estimated FSR at t is ``(1 + #{0 < W <= t}) / max(1, #{-t <= W < 0})``; the cut-off is the
largest t at which it stays within the level, and the cut group keeps ``-T <= W < 0``. All levels
are covered at once by the smallest one at which a sample is kept: its q-value. Results are on
the host by now, so these functions take NumPy arrays only.
"""

from collections.abc import Iterator

import numpy as np

from kspr.core.arrays import rank_within, row_blocks
from kspr.errors import InputError

__all__ = [
    "LEVELS",
    "best_half",
    "first_level",
    "fsr_cutoff",
    "q_values",
    "reachable",
    "theorem_factor",
]

_AT_ONCE = 1 << 20
"""Rows whose levels are found in one pass over all of their cut groups."""
LEVELS = np.arange(1, 26) / 50
"""The paper's levels: 0.02 in steps of 0.02 to 0.5."""


def fsr_cutoff(W: np.ndarray, q: float) -> float:
    """Return the largest cut-off whose estimated FSR stays within `q`.

    Keep ``-T <= W < 0``. ``0.0`` means that no sample is selectable at `q`.
    """
    within = _levels(W, np.zeros(len(W), dtype=np.int64)) <= q
    return float(np.max(np.abs(W[within]), initial=0.0))


def q_values(W: np.ndarray, cut_groups: np.ndarray) -> np.ndarray:
    """Return the smallest level at which Eq. T keeps each sample; inf for one that never is.

    Many rows are worked at in parts, each of which holds whole cut groups.
    """
    if len(W) <= _AT_ONCE:
        return np.where(W < 0, _levels(W, cut_groups), np.inf)
    sizes = np.zeros(int(cut_groups.max()) + 1, dtype=np.int64)
    for rows in row_blocks(len(W), 8):
        sizes += np.bincount(cut_groups[rows], minlength=len(sizes))
    found = np.full(len(W), np.inf)
    for first, last in _parts(sizes):
        if last - first == 1:
            _put_levels(found, W, cut_groups, first)
        else:
            some = np.flatnonzero((cut_groups >= first) & (cut_groups < last))
            found[some] = q_values(W[some], cut_groups[some])
    return found


def _parts(sizes: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield ranges of cut groups of few rows together, or of one group."""
    first = 0
    while first < len(sizes):
        total = np.cumsum(sizes[first:])
        last = first + max(1, int(np.searchsorted(total, _AT_ONCE, side="right")))
        yield first, last
        first = last


def _put_levels(found: np.ndarray, W: np.ndarray, cut_groups: np.ndarray, group: int) -> None:
    """Write the levels of one large cut group where its rows are.

    Sizes are sorted, not row numbers by them: that takes a third of the memory.
    """
    here = list(row_blocks(len(W), 8))
    own = [W[rows][cut_groups[rows] == group] for rows in here]
    ahead, behind = (
        np.sort(np.concatenate([sign * part[sign * part > 0] for part in own])) for sign in (-1, 1)
    )
    del own
    # Tied sizes enter together. A cut at the size of a label that is behind only adds that label:
    # no row needs it.
    cuts = np.append(ahead[1:] != ahead[:-1], True)[: len(ahead)]
    estimate = np.flatnonzero(cuts) + 1.0
    ahead = ahead[cuts]
    for rows in row_blocks(len(ahead), 8):
        n_behind = np.searchsorted(behind, ahead[rows], side="right")
        estimate[rows] = (1.0 + n_behind) / estimate[rows]
    levels = np.append(reachable(estimate), np.inf)
    for rows in here:
        kept = (cut_groups[rows] == group) & (W[rows] < 0)
        found[rows][kept] = levels[np.searchsorted(ahead, -W[rows][kept])]


def reachable(estimate: np.ndarray) -> np.ndarray:
    """Return the smallest level at which each position is kept, given the estimate at each.

    Positions are in the order in which they are kept: a later cut keeps all before it.
    """
    return np.asarray(np.minimum.accumulate(estimate[::-1])[::-1])


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


def _levels(W: np.ndarray, cut_groups: np.ndarray) -> np.ndarray:
    """Return the smallest level at which each sample, on either side, is within the cut-off."""
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
    return levels


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
