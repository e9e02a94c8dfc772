"""A selection on many machines: four passes over partitions, each of which stays where it is.

What travels are the rows that are fitted, to two workers, and states whose size does not grow with
the number of rows. `_partitions.py`, `_partitions_fit.py` and `_partitions_judge.py` have what runs
on the workers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kspr._progress import Progress, ProgressMode
from kspr.core.chances import Chances
from kspr.core.grading import GradeLevels, Grading
from kspr.core.linear_fit import LinearFit
from kspr.core.procedure import Procedure
from kspr.core.transition import AnyTransition, estimate_transition
from kspr.errors import InputError
from kspr.selectors._cluster_states import (
    pack_anchors,
    pack_fits,
    pack_look,
    unpack_anchors,
    unpack_fits,
    unpack_look,
)
from kspr.selectors._partitions import Dealt, Look, look, mark, merge_looks
from kspr.selectors._partitions_fit import FitJob, fit_in_two, fit_part, place_part
from kspr.selectors._partitions_judge import (
    Edge,
    Split,
    compare,
    edges_between,
    grade,
    judge,
    merge_counts,
    merge_judged,
    merge_losses,
)
from kspr.selectors._plan import Reduction, rows_to_fit
from kspr.selectors.base import split_rng
from kspr.selectors.checkpoint import once
from kspr.selectors.controls.exchangeable import check_enough, noise_floor
from kspr.selectors.engines.cluster import Cluster
from kspr.selectors.validation import check_classes

__all__ = ["Choices", "Distributed", "Outcome", "Partitions"]


@dataclass(frozen=True)
class Partitions:
    """Rows on many machines: what makes the rows of each partition, and how many these are."""

    rows: tuple[Any, ...]
    lengths: tuple[int, ...]

    @property
    def n_rows(self) -> int:
        """Rows of all partitions."""
        return sum(self.lengths)

    def blocks(self) -> list[tuple[Any, int, int]]:
        """Return the partitions that have rows, with their numbers and their first rows."""
        starts = np.cumsum((0, *self.lengths)).tolist()
        return [
            (rows, number, starts[number])
            for number, rows in enumerate(self.rows)
            if self.lengths[number]
        ]


@dataclass(frozen=True)
class Choices:
    """The parameters of a selector that the passes need."""

    seed: int
    n_splits: int
    fit_rows: int | None
    keep_copies: bool
    groups: bool
    reduction: Reduction
    procedure: Procedure
    control: str
    pooled: bool
    remove_floor: bool
    min_class_size: int
    progress: ProgressMode


@dataclass(frozen=True)
class Outcome:
    """What is known when all rows are graded."""

    classes: np.ndarray
    sizes: np.ndarray
    """Rows of each class."""
    noise: AnyTransition
    levels: GradeLevels
    kept: np.ndarray | None
    """Rows that have each of the levels; None where that is not known."""
    columns: list[Any]
    """The columns of each partition that has rows, where they are."""
    n_features: int
    digest: str
    share_of_copies: float


_Graded = tuple[GradeLevels, np.ndarray | None, list[Any]]
"""Levels, rows that have each of them, and the columns of each partition."""


class Distributed:
    """One selection on a cluster."""

    def __init__(self, cluster: Cluster, partitions: Partitions, choices: Choices) -> None:
        self._cluster, self._choices, self._partitions = cluster, choices, partitions
        self._blocks = partitions.blocks()
        # What workers have noted of the rows, a few bytes each; they make it again if it is lost.
        self._noted: list[Any] | None = None
        self._placed: list[Any] | None = None
        rngs = [split_rng(choices.seed, split) for split in range(choices.n_splits)]
        self._seeds = tuple(int(rng.integers(2**63)) for rng in rngs)
        self._sketch_seeds = tuple(int(rng.integers(2**32)) for rng in rngs)

    @cached_property
    def _wanted(self) -> int:
        """Number of rows that are fitted, at most."""
        census, choices = self._found.censuses[0], self._choices
        return rows_to_fit(
            "auto" if choices.fit_rows is None else choices.fit_rows,
            self._found.n_features,
            len(census.classes),
            choices.reduction,
            choices.procedure,
        )

    @property
    def is_small(self) -> bool:
        """Whether all rows are fitted, so that one worker holds all of them in any case."""
        return self._found.censuses[0].n_rows <= self._wanted

    def at_one_worker(self, function: Callable[..., Any], *more: Any) -> Any:
        """Return what `function` makes of the rows of all partitions, on one of the workers."""
        rows = [rows for rows, _, _ in self._blocks]
        return self._cluster.result(self._cluster.each(function, [(rows, *more)])[0])

    def run(self) -> Outcome:
        """Run all passes."""
        found = self._found
        dealt = self._deal(found)
        sizes = dealt.deals[0].sizes.T
        fits, least, borders = once(
            "fits", lambda: self._fit(found, dealt, sizes), pack_fits, unpack_fits
        )
        split = self._cluster.keep(Split(fits, dealt.n_rows, self._choices.procedure.penalty))
        edges = self._edges(borders, found.n_features + len(dealt.classes))
        parts = zip(self._blocks, self._places(dealt), edges, strict=True)
        blocks = [(rows, placed, start, edge) for (rows, _, start), placed, edge in parts]
        counted, temperature = once(
            "anchors",
            lambda: self._judge(blocks, split, sizes, least),
            pack_anchors,
            unpack_anchors,
        )
        noise = estimate_transition(counted)
        if self._choices.control == "exchangeable":
            levels, kept, columns = self._compare(blocks, split, noise, sizes.sum(axis=0))
        else:
            chances = Chances(noise, temperature)
            levels, kept, columns = self._grade(blocks, split, chances, dealt.n_rows)
        return Outcome(
            classes=dealt.classes,
            sizes=sizes.sum(axis=0),
            noise=noise,
            levels=levels,
            kept=kept,
            columns=columns,
            n_features=found.n_features,
            digest=f"{found.digest:016x}",
            share_of_copies=found.censuses[0].share_of_copies,
        )

    def _grade(self, blocks: Sequence[Any], split: Any, chances: Chances, n_rows: int) -> _Graded:
        """Grade all rows for ``control="transition"``."""
        grading = Grading(chances.noise, n_rows, pooled=self._choices.pooled)
        shared = [self._cluster.keep(value) for value in (chances, grading)]
        graded = self._cluster.each(grade, blocks, split, *shared, n_results=2)
        counts = self._merged(merge_counts, [counts for counts, _ in graded], "Grading rows")
        return grading.levels(counts), counts.kept, [columns for _, columns in graded]

    def _compare(
        self, blocks: Sequence[Any], split: Any, noise: AnyTransition, sizes: np.ndarray
    ) -> _Graded:
        """Compare all rows for ``control="exchangeable"``."""
        found = self._cluster.each(compare, blocks, split, self._choices.pooled, n_results=2)
        losses = self._merged(merge_losses, [losses for losses, _ in found], "Comparing rows")
        floor = noise_floor(noise, sizes) if self._choices.remove_floor else None
        return losses.levels(floor), None, [columns for _, columns in found]

    def _merged(self, merge: Any, states: Sequence[Any], what: str) -> Any:
        with Progress(self._choices.progress, what, len(states)) as progress:
            last = self._cluster.merged(merge, states)
            self._cluster.finish(states, progress)
            return self._cluster.result(last)

    @cached_property
    def _found(self) -> Look:
        return once("rows", self._look, pack_look, unpack_look)

    def _look(self) -> Look:
        """Look at all rows; raise `InputError` if no selection can be made from them."""
        choices = self._choices
        looked = self._cluster.each(
            look, self._blocks, self._seeds, choices.keep_copies, n_results=2
        )
        self._noted = [marks for _, marks in looked]
        found: Look = self._merged(merge_looks, [state for state, _ in looked], "Looking at rows")
        if found.largest > found.limit or 0 < found.largest < 1 / found.limit:
            raise InputError(
                f"X must have a largest absolute value between {1 / found.limit:.0e} and "
                f"{found.limit:.0e}, got {found.largest:.0e}: its squares would be infinite or "
                "zero. Multiply X by a constant."
            )
        census = found.censuses[0]
        check_classes(census.classes, census.sizes.sum(axis=(1, 2)), choices.min_class_size)
        if choices.control == "exchangeable":
            check_enough(len(census.classes))
        return found

    def _deal(self, found: Look) -> Dealt:
        """Return who is in which half, and who is fitted."""
        census, groups = found.censuses[0], self._choices.groups
        deals = tuple(census.deal(self._wanted, groups=groups) for census in found.censuses)
        return Dealt(census.classes, census.n_rows, self._seeds, deals, self._choices.keep_copies)

    def _marks(self) -> list[Any]:
        """Return what the first look has noted; workers look again after another start."""
        if self._noted is None:
            rows = [(rows,) for rows, _, _ in self._blocks]
            keep_copies = self._choices.keep_copies
            self._noted = self._cluster.each(mark, rows, self._seeds, keep_copies)
        return self._noted

    def _places(self, dealt: Dealt) -> list[Any]:
        """Return where the rows of each partition belong."""
        if self._placed is None:
            marked = zip(self._marks(), self._blocks, strict=True)
            blocks = [(marks, start) for marks, (_, _, start) in marked]
            self._placed = self._cluster.each(place_part, blocks, self._cluster.keep(dealt))
        return self._placed

    def _fit(
        self, found: Look, dealt: Dealt, sizes: np.ndarray
    ) -> tuple[tuple[LinearFit, ...], np.ndarray, np.ndarray]:
        n_splits = len(dealt.seeds)
        marked = zip(self._blocks, self._marks(), strict=True)
        parts = self._cluster.each(
            fit_part,
            [(rows, marks, start) for (rows, _, start), marks in marked],
            self._cluster.keep(dealt),
            found.n_features + len(dealt.classes),
            n_results=2 * n_splits + 2,
        )
        self._noted, self._placed = None, [part[-1] for part in parts]
        counts = np.array(self._cluster.results([part[-2] for part in parts]))
        fits = []
        for split, n_fitted in enumerate(counts[:, 2].sum(axis=0)):
            job = self._job(split, found, dealt, sizes, n_fitted)
            first, second = ([part[2 * split + side] for part in parts] for side in (0, 1))
            fits.append(fit_in_two(self._at, first, second, job, 2 * split))
        # Rows that no fit needs any more are forgotten.
        del parts, first, second
        with Progress(self._choices.progress, "Fitting", n_splits) as progress:
            fitted = self._cluster.results(fits, progress)
        return tuple(fit for fit, _ in fitted), fitted[0][1], counts[:, :2]

    def _job(
        self, split: int, found: Look, dealt: Dealt, sizes: np.ndarray, n_fitted: np.ndarray
    ) -> FitJob:
        narrow = np.dtype(found.dtype) in (np.dtype("f2"), np.dtype("f4"))
        return FitJob(
            n_classes=len(dealt.classes),
            n_rows=dealt.n_rows,
            n_features=found.n_features,
            dtype="float32" if narrow else "float64",
            n_fitted=(int(n_fitted[0]), int(n_fitted[1])),
            reduction=self._choices.reduction,
            procedure=self._choices.procedure,
            sketch_seed=self._sketch_seeds[split],
            sizes=sizes,
        )

    def _at(self, place: int, function: Callable[..., Any], *arguments: Any) -> Any:
        return self._cluster.once(function, *arguments, place=place)

    def _edges(self, borders: np.ndarray, width: int) -> list[dict[int, Edge]]:
        starts = [start for _, _, start in self._blocks]
        ends = [start + self._partitions.lengths[number] for _, number, start in self._blocks]
        return edges_between(starts, ends, list(borders), width)

    def _judge(
        self, blocks: Sequence[Any], split: Any, sizes: np.ndarray, least: np.ndarray
    ) -> tuple[Any, float]:
        for guess in (least, None):
            shared = self._cluster.keep(guess)
            states = self._cluster.each(judge, blocks, split, sizes, shared)
            judged = self._merged(merge_judged, states, "Judging rows")
            if judged.anchors.complete:
                break
        counted = judged.anchors.counts()
        noise = estimate_transition(counted)
        return counted, Chances.fit(judged.prediction, judged.codes, noise).temperature
