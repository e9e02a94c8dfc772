"""The work at one partition of data that many machines hold: what each of them runs.

Rows have numbers in the whole data, which decide their half and the blocks that they are worked at
in. A block that begins in one partition and ends in the next is filled up with empty rows in both:
products of matrices round a row by its place in them, and so every row has the place that it would
have on one machine.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from kspr.core.anchors import Anchors
from kspr.core.arrays import to_numpy
from kspr.core.chances import Chances, calibration_rows
from kspr.core.grading import GradeCounts, Grading
from kspr.core.halves import Census, Deal, row_coins, row_keys, text_coins
from kspr.core.knockoffs import closed_form_times, most_confident
from kspr.core.labels import as_label_array, encode_labels, missing_labels, name_rows, places_in
from kspr.core.linear_fit import LinearFit
from kspr.core.procedure import Procedure
from kspr.core.splitting import part_as_piece
from kspr.errors import InputError
from kspr.selectors._passes import block_rows, put
from kspr.selectors._pieces import fit_whole
from kspr.selectors._plan import Reduction, plan_part
from kspr.selectors.controls.transition import graded_rows
from kspr.selectors.engines.cluster import on_worker
from kspr.selectors.engines.local import one_level_of_threads
from kspr.selectors.feature_rows import DenseFeatures, largest_size, rows_not_finite

__all__ = [
    "Dealt",
    "Edge",
    "FitJob",
    "FitPart",
    "Judged",
    "Look",
    "Rows",
    "Split",
    "edges_between",
    "fit_part",
    "fit_together",
    "grade",
    "judge",
    "look",
    "merge_counts",
    "merge_judged",
    "merge_looks",
    "read_rows",
]


@dataclass(frozen=True)
class Rows:
    """The rows of a partition, as a worker holds them."""

    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray | None = None


def read_rows(X: Any, y: Any, groups: Any = None) -> Rows:
    """Return a partition of arrays or data frames as rows."""
    found = np.asarray(X)
    if found.ndim != 2:
        raise InputError(f"X must have two dimensions (rows, features), got {found.ndim}.")
    own = None if groups is None else as_label_array(groups, "groups")
    return Rows(found, as_label_array(y), own)


# The first pass: what is there.


@dataclass(frozen=True)
class Look:
    """What a partition has, checked; states of several partitions merge."""

    number: int
    """The partition that types are taken from."""
    n_features: int
    dtype: str
    texts: bool
    """Whether labels are texts."""
    censuses: tuple[Census, ...]
    """One for every split."""
    largest: float
    limit: float
    digest: int


@on_worker
def look(
    rows: Rows, number: int, start: int, seeds: Sequence[int], keep_copies: bool
) -> Look | None:
    """Check the rows of a partition and count them; None for a partition without rows."""
    if len(rows.X) != len(rows.y):
        raise InputError(
            f"Partition {number} of X has {len(rows.X)} rows, but that of y {len(rows.y)}. "
            "Both must be cut at the same rows."
        )
    if not len(rows.X):
        return None
    if rows.X.dtype.kind not in "fiub":
        raise InputError(f"Partition {number} of X holds {rows.X.dtype}, not numbers.")
    missing = missing_labels(rows.y)
    if missing.size:
        raise InputError(
            f"y has no label (NaN or inf, or None) in {name_rows(start + missing)}. Drop these "
            "rows first."
        )
    features = DenseFeatures(rows.X)
    bad = rows_not_finite(features)
    if bad.size:
        raise InputError(
            f"X holds NaN or inf in {name_rows(start + bad)}. Drop these rows or fill them in."
        )
    labels = encode_labels(rows.y)
    censuses = []
    for seed in seeds:
        keys, coins = _numbers(rows, features, start, seed, keep_copies)
        censuses.append(Census.of(labels.classes, labels.codes, keys, coins))
    return Look(
        number,
        features.shape[1],
        str(rows.X.dtype),
        isinstance(labels.classes.tolist()[0], str),
        tuple(censuses),
        *largest_size(features),
        _digest(rows, features, start),
    )


def merge_looks(*looks: Look | None) -> Look | None:
    """Return what neighbouring partitions have together."""
    there = [found for found in looks if found is not None]
    return reduce(_both, there) if there else None


def _both(one: Look, two: Look) -> Look:
    for what, first, second in (
        ("features", one.n_features, two.n_features),
        ("features of type", one.dtype, two.dtype),
        ("labels that are", *("texts" if found.texts else "numbers" for found in (one, two))),
    ):
        if first != second:
            counted = isinstance(first, int)
            shown = (f"{v} {what}" if counted else f"{what} {v}" for v in (first, second))
            here, there = shown
            raise InputError(
                f"Partition {one.number} has {here}, but partition {two.number} has {there}. All "
                "partitions must have the same columns and types."
            )
    return Look(
        one.number,
        one.n_features,
        one.dtype,
        one.texts,
        tuple(a.merge(b) for a, b in zip(one.censuses, two.censuses, strict=True)),
        max(one.largest, two.largest),
        one.limit,
        (one.digest + two.digest) % (1 << 64),
    )


def _numbers(
    rows: Rows, features: DenseFeatures, start: int, seed: int, keep_copies: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the keys of rows, and what those share that belong together."""
    keys = row_keys(start, len(rows.y), seed)
    if rows.groups is not None:
        return keys, text_coins(rows.groups, seed)
    if not keep_copies:
        return keys, keys
    return keys, np.concatenate([row_coins(to_numpy(block), seed) for block in features.blocks()])


def _digest(rows: Rows, features: DenseFeatures, start: int) -> int:
    """Return a number that changes with any value, label or place of a row, as a sum over rows."""
    coins = np.concatenate([row_coins(to_numpy(block), 0) for block in features.blocks()])
    mixed = coins ^ text_coins(rows.y, 0)
    return int((mixed * (row_keys(start, len(mixed), 0) | np.uint64(1))).sum(dtype=np.uint64))


# The second pass: the rows that are fitted go to one worker.


@dataclass(frozen=True)
class Dealt:
    """Who is in which half, split by split."""

    classes: np.ndarray
    n_rows: int
    seeds: tuple[int, ...]
    deals: tuple[Deal, ...]
    keep_copies: bool

    def place(
        self, rows: Rows, features: DenseFeatures, start: int, split: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return codes, keys and halves of the rows of a partition."""
        codes = places_in(self.classes, rows.y)
        keys, coins = _numbers(rows, features, start, self.seeds[split], self.keep_copies)
        return codes, keys, self.deals[split].halves(codes, keys, coins)


@dataclass(frozen=True)
class FitPart:
    """The rows of a partition that one split is fitted on."""

    X: np.ndarray
    codes: np.ndarray
    half: np.ndarray


@dataclass(frozen=True)
class Edge:
    """Rows of other partitions in a block: how many of each half come before, and how many after.

    One entry for every split; rows are ``(splits, 2)``.
    """

    before: np.ndarray
    after: np.ndarray


@on_worker
def fit_part(
    rows: Rows, start: int, dealt: Dealt, width: int
) -> tuple[tuple[FitPart, ...], tuple[np.ndarray, np.ndarray]]:
    """Return the fitted rows of each split, and the halves of rows in the first and last block.

    The latter are ``(2, splits, 2)`` counts: blocks that are shared with other partitions.
    """
    features = DenseFeatures(rows.X)
    parts, halves = [], []
    for split, deal in enumerate(dealt.deals):
        codes, keys, half = dealt.place(rows, features, start, split)
        chosen = deal.fitted(codes, keys)
        parts.append(FitPart(rows.X[chosen], codes[chosen], half[chosen]))
        halves.append(half)
    step = block_rows(width)
    inside = [
        slice(0, step - start % step),
        slice(max(0, (start + len(rows.y)) // step * step - start), None),
    ]
    counts = [
        np.array([np.bincount(half[part], minlength=2) for half in halves]) for part in inside
    ]
    return tuple(parts), (counts[0], counts[1])


def edges_between(
    starts: Sequence[int],
    ends: Sequence[int],
    counts: Sequence[Sequence[np.ndarray]],
    width: int,
) -> list[dict[int, Edge]]:
    """Return, for each partition, the edges of its blocks that other partitions share, by block.

    `counts` are the second results of `fit_part`.
    """
    step = block_rows(width)
    shared: dict[int, list[tuple[int, np.ndarray]]] = {}
    for number, (start, end, (first, last)) in enumerate(zip(starts, ends, counts, strict=True)):
        if start == end:
            continue
        shared.setdefault(start // step, []).append((number, first))
        if (end - 1) // step != start // step:
            # What is behind the last full block; nothing if the partition ends with a block.
            shared.setdefault((end - 1) // step, []).append((number, last))
    found: list[dict[int, Edge]] = [{} for _ in starts]
    for block, members in shared.items():
        if len(members) < 2:
            continue
        for place, (number, own) in enumerate(members):
            before = sum((c for _, c in members[:place]), np.zeros_like(own))
            after = sum((c for _, c in members[place + 1 :]), np.zeros_like(own))
            found[number][block] = Edge(before, after)
    return found


@dataclass(frozen=True)
class FitJob:
    """What the worker that fits must know."""

    split: int
    n_classes: int
    n_rows: int
    reduction: Reduction
    procedure: Procedure
    sketch_seed: int
    sizes: np.ndarray


@on_worker
def fit_together(parts: Sequence[tuple[FitPart, ...]], job: FitJob) -> tuple[LinearFit, np.ndarray]:
    """Fit the rows that all partitions have sent, and guess what an anchor must reach."""
    chosen = [part[job.split] for part in parts if len(part[job.split].codes)]
    codes, half = (np.concatenate([getattr(p, name) for p in chosen]) for name in ("codes", "half"))
    features = DenseFeatures(np.concatenate([part.X for part in chosen]))
    piece = part_as_piece(np.arange(len(codes)), codes, half, job.n_classes)
    with one_level_of_threads():
        plan = plan_part(features, piece, job.reduction, job.procedure, job.sketch_seed)
        fit = fit_whole(plan, job.procedure, lambda: None)
        anchors = Anchors(job.sizes).of_part(len(codes) / job.n_rows)
        start = 0
        for block in features.blocks():
            rows = slice(start, start + len(block))
            anchors.add(fit.predict(block, half[rows]), codes[rows], half[rows])
            start = rows.stop
    return fit, anchors.least


# The third and the fourth pass: all rows are judged by the fits.


@dataclass(frozen=True)
class Split:
    """The fits of all splits, and the data that they were dealt from."""

    dealt: Dealt
    fits: tuple[LinearFit, ...]
    penalty: Any


@dataclass(frozen=True)
class _Tile:
    """One block of a partition: its own rows, and all of its fitted values."""

    rows: slice
    own: slice
    codes: np.ndarray
    half: np.ndarray  # by the first split
    first: np.ndarray  # fitted values of the first split
    mean: np.ndarray  # of all splits


def _tiles(rows: Rows, start: int, split: Split, edges: dict[int, Edge]) -> Iterator[_Tile]:
    """Yield the blocks of a partition with their fitted values."""
    features = DenseFeatures(rows.X)
    n, p = features.shape
    placed = [split.dealt.place(rows, features, start, s) for s in range(len(split.fits))]
    codes = placed[0][0]
    step = block_rows(p + len(split.dealt.classes))
    for block in range(start // step, -(-(start + n) // step)):
        inside = slice(max(0, block * step - start), min(n, (block + 1) * step - start))
        X, edge = features.read(inside), edges.get(block)
        found = []
        for s, (fit, (_, _, half)) in enumerate(zip(split.fits, placed, strict=True)):
            found.append(_predicted(fit, X, half[inside], s, edge))
        ahead = 0 if edge is None else int(edge.before[0].sum())
        own = slice(ahead, ahead + len(X))
        mean = found[0] if len(found) == 1 else np.asarray(sum(found) / len(found))
        yield _Tile(inside, own, codes[inside], placed[0][2][inside], found[0], mean)


def _predicted(
    fit: LinearFit, X: np.ndarray, half: np.ndarray, split: int, edge: Edge | None
) -> np.ndarray:
    """Return the fitted values of a whole block, of which these rows are a part."""
    if edge is None:
        return fit.predict(X, half)
    around = [
        np.repeat(np.array([0, 1], half.dtype), side[split]) for side in (edge.before, edge.after)
    ]
    empty = [np.zeros((len(others), X.shape[1]), dtype=X.dtype) for others in around]
    return fit.predict(
        np.concatenate([empty[0], X, empty[1]]), np.concatenate([around[0], half, around[1]])
    )


@dataclass
class Judged:
    """The anchors of the rows so far, and the fitted values that set the temperature."""

    anchors: Anchors
    prediction: np.ndarray
    codes: np.ndarray


@on_worker
def judge(
    rows: Rows,
    start: int,
    edges: dict[int, Edge],
    split: Split,
    sizes: np.ndarray,
    least: np.ndarray | None,
) -> Judged:
    """Find the anchors of a partition."""
    anchors = Anchors(sizes, least)
    chosen = calibration_rows(split.dealt.n_rows, len(split.dealt.classes)) - start
    shown, labels = [np.empty((0, len(split.dealt.classes)))], [np.empty(0, dtype=np.intp)]
    for tile in _tiles(rows, start, split, edges):
        anchors.add(tile.first[tile.own], tile.codes, tile.half)
        here = chosen[(chosen >= tile.rows.start) & (chosen < tile.rows.stop)] - tile.rows.start
        if len(here):
            shown.append(tile.mean[tile.own][here])
            labels.append(tile.codes[here])
    skip = int(len(shown) > 1)  # the empty array has its own type
    return Judged(anchors, np.concatenate(shown[skip:]), np.concatenate(labels[skip:]))


def merge_judged(*found: Judged) -> Judged:
    """Return what neighbouring partitions have found, in their order."""
    # A new state: a worker may need the others again, if this result is lost.
    anchors = found[0].anchors.fresh()
    for part in found:
        anchors.merge(part.anchors)
    some = [part for part in found if len(part.codes)] or found[:1]
    return Judged(
        anchors,
        np.concatenate([part.prediction for part in some]),
        np.concatenate([part.codes for part in some]),
    )


@on_worker
def grade(
    rows: Rows,
    start: int,
    edges: dict[int, Edge],
    split: Split,
    chances: Chances,
    grading: Grading,
) -> tuple[GradeCounts, dict[str, np.ndarray]]:
    """Grade a partition: return its counts, and its columns."""
    counts, columns = grading.no_counts(), dict[str, np.ndarray]()
    for tile in _tiles(rows, start, split, edges):
        prediction, codes = tile.mean[tile.own], tile.codes
        right = chances.right(tile.mean)[tile.own]
        graded, found = graded_rows(prediction, right, codes, chances, grading)
        counts.add(graded)
        more = {
            "code": codes.astype(np.int32),
            "Z": closed_form_times(prediction, codes, split.penalty),
            "knockoff": to_numpy(most_confident(prediction, codes)).astype(np.int32),
        }
        put(columns, tile.rows, {**found, **more}, len(rows.y))
    return counts, columns


def merge_counts(*counts: GradeCounts) -> GradeCounts:
    """Return the counts of several partitions together."""
    total = GradeCounts(len(counts[0].kept))
    for part in counts:
        total.merge(part)
    return total
