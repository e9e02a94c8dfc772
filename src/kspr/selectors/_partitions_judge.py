"""All rows of data that many machines hold are judged by the fits: the passes over a partition.

A block that begins in one partition and ends in the next is filled up with empty rows in both:
products of matrices round a row by its place in them, and so every row has the place that it would
have on one machine.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kspr.core.anchors import Anchors
from kspr.core.arrays import to_numpy
from kspr.core.chances import Chances, calibration_rows
from kspr.core.exchangeable import GradedLosses
from kspr.core.grading import GradeCounts, Grading
from kspr.core.knockoffs import all_times, closed_form_times, most_confident
from kspr.core.linear_fit import LinearFit
from kspr.selectors._partitions import Placed, Rows
from kspr.selectors._passes import block_rows, put
from kspr.selectors.controls.transition import graded_rows
from kspr.selectors.engines.cluster import on_worker
from kspr.selectors.feature_rows import DenseFeatures

__all__ = [
    "Edge",
    "Judged",
    "Split",
    "compare",
    "edges_between",
    "grade",
    "judge",
    "merge_counts",
    "merge_judged",
    "merge_losses",
]


@dataclass(frozen=True)
class Edge:
    """Rows of other partitions in a block: how many of each half come before, and how many after.

    One entry for every split; rows are ``(splits, 2)``.
    """

    before: np.ndarray
    after: np.ndarray


def edges_between(
    starts: Sequence[int],
    ends: Sequence[int],
    counts: Sequence[Sequence[np.ndarray]],
    width: int,
) -> list[dict[int, Edge]]:
    """Return, for each partition, the edges of its blocks that other partitions share, by block.

    `counts` are those of `fit_part`: rows of each half in the first and in the last block.
    """
    step = block_rows(width)
    shared: dict[int, list[tuple[int, np.ndarray]]] = {}
    for number, (start, end, (first, last, *_)) in enumerate(
        zip(starts, ends, counts, strict=True)
    ):
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
class Split:
    """The fits of all splits."""

    fits: tuple[LinearFit, ...]
    n_rows: int
    """Rows of the whole data."""
    penalty: Any

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self.fits[0].n_classes


@dataclass(frozen=True)
class _Tile:
    """One block of a partition: its own rows, and all of its fitted values."""

    rows: slice
    own: slice
    codes: np.ndarray
    half: np.ndarray  # by the first split
    first: np.ndarray  # fitted values of the first split
    mean: np.ndarray  # of all splits


def _tiles(
    rows: Rows, placed: Placed, start: int, split: Split, edges: dict[int, Edge]
) -> Iterator[_Tile]:
    """Yield the blocks of a partition with their fitted values."""
    features = DenseFeatures(rows.X)
    n, p = features.shape
    step = block_rows(p + split.n_classes)
    for block in range(start // step, -(-(start + n) // step)):
        inside = slice(max(0, block * step - start), min(n, (block + 1) * step - start))
        X, edge = features.read(inside), edges.get(block)
        found = [
            _predicted(fit, X, half[inside], s, edge)
            for s, (fit, half) in enumerate(zip(split.fits, placed.half, strict=True))
        ]
        ahead = 0 if edge is None else int(edge.before[0].sum())
        own = slice(ahead, ahead + len(X))
        mean = found[0] if len(found) == 1 else np.asarray(sum(found) / len(found))
        codes = placed.codes[inside].astype(np.intp)
        yield _Tile(inside, own, codes, placed.half[0, inside], found[0], mean)


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
    placed: Placed,
    start: int,
    edges: dict[int, Edge],
    split: Split,
    sizes: np.ndarray,
    least: np.ndarray | None,
) -> Judged:
    """Find the anchors of a partition."""
    anchors = Anchors(sizes, least)
    chosen = calibration_rows(split.n_rows, split.n_classes) - start
    shown, labels = [np.empty((0, split.n_classes))], [np.empty(0, dtype=np.intp)]
    for tile in _tiles(rows, placed, start, split, edges):
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
    placed: Placed,
    start: int,
    edges: dict[int, Edge],
    split: Split,
    chances: Chances,
    grading: Grading,
) -> tuple[GradeCounts, dict[str, np.ndarray]]:
    """Grade a partition: return its counts, and its columns."""
    counts, columns = grading.no_counts(), dict[str, np.ndarray]()
    for tile in _tiles(rows, placed, start, split, edges):
        prediction, codes = tile.mean[tile.own], tile.codes
        right = chances.right(tile.mean)[tile.own]
        graded, found = graded_rows(prediction, right, codes, chances, grading)
        counts.add(graded)
        found |= _compared(prediction, codes, split)
        put(columns, tile.rows, found, len(rows.y))
    return counts, columns


@on_worker
def compare(
    rows: Rows, placed: Placed, start: int, edges: dict[int, Edge], split: Split, pooled: bool
) -> tuple[GradedLosses, dict[str, np.ndarray]]:
    """Compare the labels of a partition with all others: return its losses, and its columns."""
    losses, columns = GradedLosses(split.n_classes, pooled=pooled), dict[str, np.ndarray]()
    small = np.min_scalar_type(split.n_classes - 1)
    for tile in _tiles(rows, placed, start, split, edges):
        prediction, codes = tile.mean[tile.own], tile.codes
        grade, statistic = losses.add(all_times(prediction, split.penalty), codes)
        more = {
            "grade": grade,
            "statistic": statistic,
            "best": np.argmax(prediction, axis=1).astype(small),
        }
        put(columns, tile.rows, {**_compared(prediction, codes, split), **more}, len(rows.y))
    return losses, columns


def _compared(prediction: np.ndarray, codes: np.ndarray, split: Split) -> dict[str, np.ndarray]:
    """Return the columns that all controls have."""
    # Columns of all rows may travel: codes in few bytes.
    small = np.min_scalar_type(split.n_classes - 1)
    return {
        "code": codes.astype(small),
        "Z": closed_form_times(prediction, codes, split.penalty),
        "knockoff": to_numpy(most_confident(prediction, codes)).astype(small),
    }


def merge_losses(*found: GradedLosses) -> GradedLosses:
    """Return the losses of several partitions together."""
    total = found[0].fresh()
    for part in found:
        total.merge(part)
    return total


def merge_counts(*counts: GradeCounts) -> GradeCounts:
    """Return the counts of several partitions together."""
    total = GradeCounts(len(counts[0].kept))
    for part in counts:
        total.merge(part)
    return total
