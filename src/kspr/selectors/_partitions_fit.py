"""The fit of data that many machines hold: each half is gathered and fitted by a worker of its own.

Workers send the rows that are fitted to the two that fit; nothing else of them travels but sums.
Blocks are those of one machine, which puts one half behind the other: the block in which the first
half ends is worked at by whoever has the second, and gets the rows that it needs for that.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kspr.core.anchors import Anchors
from kspr.core.arrays import in_order, row_blocks
from kspr.core.linear_fit import LinearFit
from kspr.core.procedure import Procedure, fit_half, max_directions, swapped_fit
from kspr.core.regression import Basis, basis_from, column_products, column_sums, fit_basis
from kspr.core.splitting import part_as_piece
from kspr.selectors._partitions import Dealt, Held, Marks, Placed, Rows
from kspr.selectors._passes import block_rows
from kspr.selectors._plan import Reduction, plan_part, reduced_batch
from kspr.selectors.engines.cluster import on_worker
from kspr.selectors.feature_rows import DenseFeatures

__all__ = [
    "FitJob",
    "FitPart",
    "Half",
    "Scores",
    "fit_in_two",
    "fit_part",
    "place_part",
]

_PRODUCTS = 256 << 20
"""Bytes of the products of blocks that a worker may hold until they are added up in order."""
_GUESSED, _PER_CLASS = 1 << 15, 128
"""Rows of a half that the guess for its anchors is made by: at least, and for each class."""


@dataclass(frozen=True)
class FitPart(Held):
    """The rows of a partition that one half of one split is fitted on."""

    X: np.ndarray
    codes: np.ndarray
    place: np.ndarray
    """Their numbers in the partition, ascending."""


@on_worker
def fit_part(rows: Rows, marks: Marks, start: int, dealt: Dealt, width: int) -> tuple[Any, ...]:
    """Return the fitted rows of each half of each split, then counts, and where rows belong.

    The counts are ``(3, splits, 2)``, by half: rows in the first and the last block, which may be
    shared with other partitions, and fitted rows.
    """
    placed, keys = dealt.place(marks, start)
    parts = []
    for deal, half, own in zip(dealt.deals, placed.half, keys, strict=True):
        chosen = deal.fitted(placed.codes, own)
        for side in (0, 1):
            mine = chosen[half[chosen] == side]
            parts.append(FitPart(rows.X[mine], placed.codes[mine], mine.astype(np.int32)))
    fitted = np.array([len(part.codes) for part in parts]).reshape(-1, 2)
    return *parts, np.stack([*_borders(placed.half, start, width), fitted]), placed


def _borders(halves: np.ndarray, start: int, width: int) -> list[np.ndarray]:
    """Return how many rows of each half are in the first block and behind the last full one."""
    step, n = block_rows(width), halves.shape[1]
    inside = (slice(0, step - start % step), slice(max(0, (start + n) // step * step - start), n))
    return [np.stack([np.bincount(half[part], minlength=2) for half in halves]) for part in inside]


@on_worker
def place_part(marks: Marks, start: int, dealt: Dealt) -> Placed:
    """Return where rows belong, for fits that an earlier start has made."""
    return dealt.place(marks, start)[0]


@dataclass(frozen=True)
class FitJob:
    """What the workers that fit must know."""

    n_classes: int
    n_rows: int
    """Rows of the whole data."""
    n_features: int
    dtype: str
    """Type in which features are worked at."""
    n_fitted: tuple[int, int]
    """Rows of each half that are fitted."""
    reduction: Reduction
    procedure: Procedure
    sketch_seed: int
    sizes: np.ndarray

    @property
    def slots(self) -> int:
        """Places for the rows of a half; the smaller one does not fill them."""
        return max(self.n_fitted)

    @property
    def step(self) -> int:
        """Rows of a block."""
        return int(next(row_blocks(2 * self.slots, self.n_features)).stop)

    @property
    def ahead(self) -> int:
        """Rows of the first half in the block in which it ends, if the second begins in it."""
        return self.slots % self.step

    @property
    def in_two(self) -> bool:
        """Whether halves can be gathered by a worker each from the start."""
        d = self.reduction.dimensions(self.n_classes)
        blocks = self.slots // self.step + 1
        few = blocks * self.n_features**2 * 8 <= _PRODUCTS
        return few and (d is None or d >= self.n_features)


@dataclass(frozen=True)
class Half(Held):
    """The fitted rows of a half in the places that they have on one machine: class by class."""

    X: np.ndarray
    label: np.ndarray
    n: int
    """Rows; places behind them are empty."""


@dataclass(frozen=True)
class Scores(Held):
    """A half in the coordinates of a basis, and some of its rows as they are."""

    Q: np.ndarray
    label: np.ndarray
    n: int
    shown: np.ndarray


Once = Callable[..., Any]
"""Run a function on a worker; the number of that worker comes first."""


def fit_in_two(
    once: Once, first: Sequence[Any], second: Sequence[Any], job: FitJob, place: int
) -> Any:
    """Return the fit and a guess for its anchors, as they will be, of the parts of two halves."""
    here, there = place, place + 1
    if job.in_two:
        halves = once(here, gather, first, job), once(there, gather, second, job)
        basis = _basis(once, halves, job, place)
        betas = [
            once(place + side, fit_rows, half, side, basis, job) for side, half in enumerate(halves)
        ]
        shown = [once(place + side, some_rows, half, job) for side, half in enumerate(halves)]
    else:
        reduced = once(here, reduce_rows, first, second, job)
        basis, *scores = (once(here, _pick, reduced, number) for number in range(3))
        betas = [once(place + side, fit_scores, half, job) for side, half in enumerate(scores)]
        shown = [once(here, _shown, half) for half in scores]
    return once(here, join, basis, *betas, *shown, job)


def _basis(once: Once, halves: tuple[Any, Any], job: FitJob, place: int) -> Any:
    """Return the basis of the columns of both halves: each worker adds up its own blocks."""
    tail = once(place, last_rows, halves[0], job)
    mean: Any = np.zeros((1, 1, job.n_features), dtype=job.dtype)
    if job.procedure.intercept:
        sums = (
            once(place, first_sums, halves[0], None, job),
            once(place + 1, second_sums, halves[1], tail, None, job),
        )
        mean = once(place + 1, mean_of, *sums, job)
    products = (
        once(place, first_sums, halves[0], mean, job),
        once(place + 1, second_sums, halves[1], tail, mean, job),
    )
    return once(place + 1, basis_of, *products, mean, job)


@on_worker
def gather(parts: Sequence[FitPart], job: FitJob) -> Half:
    """Put the rows that all partitions have sent of a half into their places."""
    codes = np.concatenate([part.codes for part in parts]).astype(np.int64)
    order = np.argsort(codes, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    X = np.zeros((job.slots, job.n_features), dtype=job.dtype)
    label = np.zeros(job.slots, dtype=np.int64)
    label[: len(codes)] = codes[order]
    start = 0
    for part in parts:
        X[place[start : start + len(part.codes)]] = part.X
        start += len(part.codes)
    return Half(X, label, len(codes))


@on_worker
def last_rows(half: Half, job: FitJob) -> Half:
    """Return the rows of the first half that share a block with the second."""
    first = job.slots - job.ahead
    # A copy: a view would keep the whole half.
    return Half(half.X[first:].copy(), half.label[first:], max(0, half.n - first))


@on_worker
def first_sums(half: Half, mean: np.ndarray | None, job: FitJob) -> np.ndarray:
    """Return sums over the full blocks of the first half: of columns, or of products."""
    return np.asarray(in_order(_each_sum(_weighted(half, 0, job.slots - job.ahead, job), mean)))


@on_worker
def second_sums(half: Half, tail: Half, mean: np.ndarray | None, job: FitJob) -> list[np.ndarray]:
    """Return the same block by block, from the block on that both halves share."""

    def blocks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        room = 0
        if job.ahead:
            room = min(job.step - job.ahead, job.slots)
            both = [*_weighted(tail, 0, job.ahead, job), *_weighted(half, 0, room, job)]
            X, weight = (np.concatenate(part, axis=1) for part in zip(*both, strict=True))
            yield X, weight
        yield from _weighted(half, room, job.slots, job)

    return list(_each_sum(blocks(), mean))


def _each_sum(
    blocks: Iterator[tuple[np.ndarray, np.ndarray]], mean: np.ndarray | None
) -> Iterator[np.ndarray]:
    return column_sums(blocks) if mean is None else column_products(blocks, mean)


def _weighted(
    half: Half, first: int, last: int, job: FitJob
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield places of a half in blocks; empty ones have no weight."""
    for start in range(first, last, job.step):
        X = half.X[start : min(start + job.step, last)]
        weight = (np.arange(start, start + len(X)) < half.n).astype(X.dtype)
        yield X[None], weight[None, :, None]


@on_worker
def mean_of(first: np.ndarray, second: list[np.ndarray], job: FitJob) -> np.ndarray:
    """Return the mean of the columns."""
    return np.asarray(in_order(second, first) / float(sum(job.n_fitted)), dtype=job.dtype)


@on_worker
def basis_of(first: np.ndarray, second: list[np.ndarray], mean: np.ndarray, job: FitJob) -> Basis:
    """Return the basis, given the products of all blocks."""
    total = np.full((1, 1, 1), float(sum(job.n_fitted)))
    limit = max_directions(job.slots, job.procedure)
    return basis_from(in_order(second, first), mean, total, job.procedure.intercept, limit)


@on_worker
def fit_rows(half: Half, side: int, basis: Basis, job: FitJob) -> np.ndarray:
    """Return the coefficients of a half in the coordinates of `basis`."""
    width = int(basis.intercept) + basis.directions.shape[2]
    Q = np.empty((1, job.slots, width), dtype=half.X.dtype)
    for rows, before, after in _places(side, job):
        block = half.X[rows]
        if before or after:
            # A product rounds a row by its place, so empty rows stand for those of the other half.
            around = [np.zeros((n, block.shape[1]), dtype=block.dtype) for n in (before, after)]
            block = np.concatenate([around[0], block, around[1]])
        Q[0, rows] = basis.transform(block[None])[0, before : len(block) - after]
    return _beta(Q, half.label, half.n, job)


def _places(side: int, job: FitJob) -> Iterator[tuple[slice, int, int]]:
    """Yield the places of a half block by block, and those of the other half around them."""
    first, end = side * job.slots, (side + 1) * job.slots
    for start in range(first - first % job.step, end, job.step):
        stop = min(start + job.step, 2 * job.slots)
        inside = slice(max(start, first) - first, min(stop, end) - first)
        yield inside, max(0, first - start), max(0, stop - end)


@on_worker
def some_rows(half: Half, job: FitJob) -> np.ndarray:
    """Return the rows of a half that the guess for its anchors is made by."""
    return half.X[: half.n : _stride(half.n, job)].copy()


def _stride(n_rows: int, job: FitJob) -> int:
    # Rows are sorted by class: those at equal steps are of all classes.
    return max(1, n_rows // max(_GUESSED, _PER_CLASS * job.n_classes))


@on_worker
def reduce_rows(
    first: Sequence[FitPart], second: Sequence[FitPart], job: FitJob
) -> tuple[Basis, Scores, Scores]:
    """Return a basis of the rows of both halves, and these in its coordinates.

    Principal components are found in blocks that both halves share, so one worker has all rows.
    """
    X, codes, half = (np.concatenate(part) for part in zip(*_mixed(first, second), strict=True))
    features = DenseFeatures(X)
    piece = part_as_piece(np.arange(len(codes)), codes, half, job.n_classes)
    plan = plan_part(features, piece, job.reduction, job.procedure, job.sketch_seed)
    Q = reduced_batch(plan, piece)
    if plan.projection is None:
        flat = Q.reshape(1, 2 * job.slots, -1)
        limit = max_directions(job.slots, job.procedure)
        basis = fit_basis(flat, piece.valid.reshape(1, -1), plan.intercept, limit)
        Q = basis.transform(flat).reshape(1, 2, job.slots, -1)
    else:
        basis = Basis(plan.projection.mean, plan.projection.components, plan.intercept)
    scores = []
    for side, n in enumerate(job.n_fitted):
        shown = X[piece.index[0, side, : n : _stride(n, job)]]
        scores.append(Scores(Q[:, side], piece.label[0, side], n, shown))
    return basis, scores[0], scores[1]


def _mixed(
    first: Sequence[FitPart], second: Sequence[FitPart]
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield features, codes and halves of the fitted rows of each partition, in their order."""
    for parts in zip(first, second, strict=True):
        order = np.argsort(np.concatenate([part.place for part in parts]), kind="stable")
        half = np.repeat(np.arange(2, dtype=np.int8), [len(part.codes) for part in parts])
        X, codes = (np.concatenate([getattr(p, name) for p in parts]) for name in ("X", "codes"))
        yield X[order], codes[order].astype(np.int64), half[order]


@on_worker
def fit_scores(half: Scores, job: FitJob) -> np.ndarray:
    """Return the coefficients of a half that is in the coordinates of its basis."""
    return _beta(half.Q, half.label, half.n, job)


def _beta(Q: np.ndarray, label: np.ndarray, n: int, job: FitJob) -> np.ndarray:
    valid = np.arange(job.slots) < n
    found = fit_half(Q, label[None], valid[None], n_classes=job.n_classes, procedure=job.procedure)
    return np.asarray(found)


def _pick(values: Sequence[Any], number: int) -> Any:
    return values[number]


def _shown(half: Scores) -> np.ndarray:
    return half.shown


@on_worker
def join(
    basis: Basis,
    first: np.ndarray,
    second: np.ndarray,
    shown_first: np.ndarray,
    shown_second: np.ndarray,
    job: FitJob,
) -> tuple[LinearFit, np.ndarray]:
    """Return the fit by the coefficients of both halves, and guess what an anchor must reach."""
    fit = swapped_fit(basis, np.concatenate([first, second]))
    least = np.full((2, job.n_classes), -np.inf)
    for side, rows in enumerate((shown_first, shown_second)):
        total = int(job.sizes[side].sum())
        if not len(rows):
            continue
        anchors, half = Anchors(job.sizes).of_part(len(rows) / total), np.full(len(rows), side)
        X = DenseFeatures(rows).read(slice(None))
        # The labels of anchors have no part in what these reach.
        anchors.add(fit.predict(X, half), np.zeros(len(rows), dtype=np.int64), half)
        least[side] = anchors.least.reshape(2, -1)[side]
    return fit, least.reshape(-1)
