"""Cut-offs on W: exactly Eq. T, for every cell in one pass.

A cell is what is cut together: one class in one half of a piece, or a whole half. The
estimated FSR at t is ``(1 + #{0 < W <= t}) / max(1, #{-t <= W < 0})``; the cut-off is the
largest t at which it stays within the level, and the cell keeps ``-T <= W < 0``.
"""

from dataclasses import dataclass

import numpy as np

from kspr.core._arrays import Array, double, like, namespace, rank_within
from kspr.errors import InputError

__all__ = [
    "LEVELS",
    "Cut",
    "best_half",
    "cut_at",
    "cut_smallest",
    "fsr_cutoff",
    "theorem_factor",
]

LEVELS = np.arange(1, 26) / 50
"""The paper's levels: 0.02 in steps of 0.02 to 0.5."""


@dataclass(frozen=True)
class Cut:
    """What a cut decided, per cell; `keep` is per sample, in the order given."""

    keep: Array
    T: Array  # 0 where nothing is selectable
    estimate: Array  # estimated FSR at T; inf where T is 0
    smallest: Array  # smallest estimate over all t: no level below it can be reached
    level: Array  # the level that was met; nan where none was


@dataclass(frozen=True)
class _Walk:
    """W in order of (cell, |W|), with the estimate at the end of every tie."""

    order: Array  # sample at each position
    size: Array  # |W| at each position
    estimate: Array  # inf inside a tie: a cut there would let the sort order pick samples
    cell: Array
    start: Array  # per cell, first position
    stop: Array  # per cell, one past the last position


def fsr_cutoff(W: Array, q: float) -> float:
    """Return the largest cut-off whose estimated FSR stays within `q`.

    Keep ``-T <= W < 0``. ``0.0`` means that no sample is selectable at `q`.
    """
    xp = namespace(W)
    cells = xp.zeros(W.shape, dtype=xp.int64, device=W.device)
    return float(cut_at(W, cells, 1, like([q], W, dtype=xp.float64)).T[0])


def theorem_factor(n_classes: int, kappa: float | None = None) -> float:
    """Return the factor that Theorem 2 puts on q: ``(c-2+2k) / (2(c-2k))``.

    Without `kappa` the paper's worst case, 0, is taken; that needs more than two classes.
    """
    if kappa is None:
        if n_classes <= 2:
            raise InputError(
                "bound='theorem' covers two classes only with kappa, the chance that a wrong label "
                f"loses to a right knockoff; got {n_classes} classes. Pass kappa, or bound='plain'."
            )
        kappa = 0.0
    elif not 0 <= kappa < 1:
        raise InputError(f"kappa must lie in [0, 1), got {kappa}. It is a probability.")
    return (n_classes - 2 + 2 * kappa) / (2 * (n_classes - 2 * kappa))


def cut_at(W: Array, cells: Array, n_cells: int, levels: Array) -> Cut:
    """Cut every cell at its own level; a cell that cannot reach it keeps nothing."""
    walk = _walk(W, cells, n_cells)
    return _cut(W, cells, walk, levels, _smallest(walk))


def cut_smallest(W: Array, cells: Array, n_cells: int, factor: Array, levels: Array) -> Cut:
    """Cut every cell at the first of ascending `levels` that it can reach.

    `factor` multiplies the levels, cell by cell (1 for the plain bound). `Cut.level` is the
    level before the factor; cells that reach none of them keep nothing.
    """
    xp = namespace(W)
    walk = _walk(W, cells, n_cells)
    smallest = _smallest(walk)
    scaled = factor[:, None] * levels[None, :]
    reached = scaled >= smallest[:, None]
    index = xp.argmax(xp.astype(reached, xp.int64), axis=1)
    usable = xp.any(reached, axis=1)
    limit = xp.where(usable, xp.take_along_axis(scaled, index[:, None], axis=1)[:, 0], -1.0)
    cut = _cut(W, cells, walk, limit, smallest)
    return Cut(
        cut.keep,
        cut.T,
        cut.estimate,
        cut.smallest,
        xp.where(usable, xp.take(levels, index), xp.nan),
    )


def best_half(W: Array, cells: Array, n_cells: int) -> Array:
    """Mark the half of each cell that is most likely clean: small negative W first.

    Labels that beat their knockoff come before those that lost to it; within either side a
    smaller magnitude comes first.
    """
    xp = namespace(W)
    behind = xp.astype(W >= 0, cells.dtype)
    rank, sizes = rank_within(xp.abs(W), 2 * cells + behind, 2 * n_cells)
    ahead_size, size = sizes[0::2], sizes[0::2] + sizes[1::2]
    rank = rank + behind * xp.take(ahead_size, cells)
    return rank < xp.take((size + 1) // 2, cells)


def _walk(W: Array, cells: Array, n_cells: int) -> _Walk:
    xp = namespace(W)
    size = xp.abs(double(W))
    order = xp.argsort(size, stable=True)
    order = xp.take(order, xp.argsort(xp.take(cells, order), stable=True))
    cell, size, sign = xp.take(cells, order), xp.take(size, order), xp.take(xp.sign(W), order)
    ids = xp.arange(n_cells, dtype=cell.dtype, device=W.device)
    start = xp.searchsorted(cell, ids)
    stop = xp.searchsorted(cell, ids, side="right")
    ahead = _running_count(sign < 0, cell, start)
    behind = _running_count(sign > 0, cell, start)
    estimate = (1.0 + behind) / xp.where(ahead > 0, ahead, 1.0)
    tied = (size[1:] == size[:-1]) & (cell[1:] == cell[:-1])
    tied = xp.concat([tied, xp.zeros_like(estimate[:1], dtype=xp.bool)])
    estimate = xp.where(tied, xp.inf, estimate)
    # Eq. T asks for t > 0, and W = 0 is on neither side.
    estimate = xp.where(size > 0, estimate, xp.inf)
    return _Walk(order, size, estimate, cell, start, stop)


def _running_count(hit: Array, cell: Array, start: Array) -> Array:
    """Return how many hits a cell has had up to and including each position."""
    xp = namespace(hit)
    total = xp.cumulative_sum(xp.astype(hit, xp.float64), include_initial=True)
    return total[1:] - xp.take(xp.take(total, start), cell)


def _smallest(walk: _Walk) -> Array:
    """Return the smallest estimate of each cell; inf for an empty one."""
    xp = namespace(walk.estimate)
    order = xp.argsort(walk.estimate, stable=True)
    order = xp.take(order, xp.argsort(xp.take(walk.cell, order), stable=True))
    beyond = xp.full((1,), xp.inf, dtype=xp.float64, device=order.device)
    ordered = xp.concat([xp.take(walk.estimate, order), beyond])
    return xp.where(walk.stop > walk.start, xp.take(ordered, walk.start), xp.inf)


def _cut(W: Array, cells: Array, walk: _Walk, levels: Array, smallest: Array) -> Cut:
    """Find each cell's last position within its level, and keep what lies before it."""
    xp = namespace(W)
    (within,) = xp.nonzero(walk.estimate <= xp.take(levels, walk.cell))
    padded = xp.concat([xp.full((1,), -1, dtype=within.dtype, device=W.device), within])
    last = xp.take(padded, xp.searchsorted(within, walk.stop))
    found = last >= walk.start
    # One past the position, in arrays that begin with what an unreached level gives.
    position = xp.where(found, last + 1, 0)
    nothing = xp.zeros((1,), dtype=xp.float64, device=W.device)
    T = xp.take(xp.concat([nothing, walk.size]), position)
    estimate = xp.take(xp.concat([nothing + xp.inf, walk.estimate]), position)
    keep = (W < 0) & (double(-W) <= xp.take(T, cells))
    return Cut(
        keep,
        T,
        estimate,
        smallest,
        xp.where(found, levels, xp.nan),
    )
