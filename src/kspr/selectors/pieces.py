"""Data in pieces, as the paper splits it: what `PaperKnockoffsSPR` and `SPR` share.

Classes are put into groups of similar ones, and each group into pieces with the same number of
samples of each class. Pieces are solved in batches, by whichever workers joblib has.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, get_args

import joblib
import numpy as np

from kspr._progress import Progress, ProgressMode
from kspr.core.labels import Labels
from kspr.core.paper.pieces import (
    Pieces,
    group_classes,
    make_pieces,
    prototypes,
    similarity,
)
from kspr.core.paper.procedure import Procedure
from kspr.core.paper.selection_times import PENALTIES, STEPS
from kspr.core.reduction import fit_pca
from kspr.errors import InputError
from kspr.selectors.base import BaseSelector, split_rng
from kspr.selectors.look import look
from kspr.selectors.options import CutName, PenaltyName
from kspr.selectors.parts import HostFeatures, one_blas_thread, sparse_components
from kspr.selectors.validation import (
    check_choice,
    check_count,
    check_progress,
    check_rate,
    read_features,
    read_labels,
    read_reduction,
    refuse_dense,
)

_BATCH_BYTES = 16 << 20

Answer = dict[str, np.ndarray]
"""Arrays ``(pieces, 2, slots)`` by name."""
Solve = Callable[[Pieces, Callable[[], None] | None], Answer]
"""Solve a batch of pieces; the second argument is called after each step."""


@dataclass(frozen=True)
class SplitData:
    """Data that passed the checks, in batches of pieces."""

    features: HostFeatures
    labels: Labels
    batches: list[Pieces]
    dimensions: int | str | None
    """Principal components of a piece: a number, ``"classes"``, or None for the features."""
    seed: int
    sketch_seed: int
    content: np.ndarray
    """A number for the content of each row."""
    rng: np.random.Generator

    def _dimensions(self, n_classes: int) -> int | None:
        if self.dimensions == "classes":
            return n_classes
        return None if self.dimensions is None else int(self.dimensions)

    def reduced(self, pieces: Pieces) -> np.ndarray:
        """Return the features of a batch: ``(pieces, 2, slots, d)``."""
        p = self.features.shape[1]
        d = self._dimensions(pieces.classes.shape[1])
        n_pieces, _, slots = pieces.index.shape
        flat = pieces.index.reshape(n_pieces, 2 * slots)
        if d is not None and d < p and self.features.sparse:
            rows = self.features.matrix
            parts = [sparse_components(rows[index], d, self.sketch_seed) for index in flat]
            return np.stack(parts).reshape(n_pieces, 2, slots, -1)
        X = self.features.take(flat.reshape(-1)).reshape(n_pieces, 2 * slots, p)
        if d is None or d >= p:
            return X.reshape(n_pieces, 2, slots, p)
        # A sketch at random would change the masks of a few rows in a hundred.
        rng = np.random.default_rng(self.sketch_seed)
        scores = fit_pca(lambda: [X], d, solver="exact", rng=rng).transform(X)
        return scores.reshape(n_pieces, 2, slots, d)


@dataclass(eq=False, repr=False)
class PieceSelector(BaseSelector):
    """A selector that splits the data into pieces."""

    _: KW_ONLY
    penalty: PenaltyName = "group"
    min_class_size: int = 2
    random_state: Any = 0
    n_jobs: int | None = None
    progress: ProgressMode = "auto"

    def _check_pieces(self) -> None:
        """Check the parameters that these selectors have in common."""
        check_choice("penalty", self.penalty, PENALTIES)
        check_choice("cut", self.cut, get_args(CutName))
        check_rate("clean_ratio", self.clean_ratio)
        check_count("min_class_size", self.min_class_size, 1)
        if self.classes_per_group is not None:
            # In a group of one class there is nothing to compare.
            check_count("classes_per_group", self.classes_per_group, 2)
        if self.samples_per_class is not None:
            # Two samples of each class in either half.
            check_count("samples_per_class", self.samples_per_class, 4)
        check_progress(self.progress)

    def _procedure(self, *, fine: bool, **choices: Any) -> Procedure:
        """Return the choices of a piece; a `fine` path costs little beside the PCA of pieces."""
        # On CIFAR-10, 0.02 % of the masks differ from a path of 200 steps and 10 sweeps, where the
        # coarse grid leaves 0.06 to 0.3 %.
        steps, sweeps = (64, 2) if fine else (STEPS, 1)
        return Procedure(
            penalty=PENALTIES[self.penalty],
            intercept=bool(self.fit_intercept),
            clean_ratio=self.clean_ratio,
            all_columns=self.reduction is None,
            steps=steps,
            sweeps=sweeps,
            **choices,
        )

    def _split(self, X: Any, y: Any, clean_mask: Any) -> SplitData:
        """Check the data, and split it."""
        features = HostFeatures(read_features(self, X))
        labels = read_labels(y, features.shape[0], self.min_class_size)
        dimensions, transformer = read_reduction(self.reduction, "classes")
        seed = self._seed()
        clean = None if clean_mask is None else np.asarray(clean_mask, dtype=bool)
        if clean is not None and clean.shape != labels.codes.shape:
            raise InputError(
                f"clean_mask must hold one entry per row: X has {features.shape[0]} rows, "
                f"clean_mask has shape {clean.shape}."
            )
        content = look(features, find_copies=False).content
        rng = split_rng(seed)
        groups = self._groups(features, labels, clean)
        pieces = make_pieces(labels.codes, groups, self.samples_per_class, rng)
        # Drawn once for all: a batch's sketch must not depend on the order of the batches.
        sketch_seed = int(rng.integers(2**32))
        if transformer is not None:
            features = features.transformed(transformer)
        elif features.sparse and (dimensions is None or sum(p.n_pieces for p in pieces) == 1):
            d = len(labels.classes) if dimensions == "classes" else dimensions
            if d is None:
                refuse_dense()
            features, dimensions = features.reduced(int(d), sketch_seed), None
        return SplitData(
            features,
            labels,
            list(_batches(pieces, features.shape[1])),
            dimensions,
            seed,
            sketch_seed,
            content,
            rng,
        )

    def _groups(
        self, features: HostFeatures, labels: Labels, clean: np.ndarray | None
    ) -> list[np.ndarray]:
        """Return the classes that are solved together."""
        n_classes, size = len(labels.classes), self.classes_per_group
        if size is None or size >= n_classes:
            return [np.arange(n_classes)]
        # Alg. 2, line 1: Eq. prototype and Eq. simialrity (so spelled in the paper's source).
        blocks: Iterator[Any] = (block for _, block in features.chosen_blocks(None))
        dense = (block.toarray() for block in blocks) if features.sparse else blocks
        return group_classes(similarity(prototypes(dense, labels.codes, n_classes, clean)), size)

    def _solved(
        self,
        data: SplitData,
        solve: Callable[[Pieces, Callable[[], None] | None], Answer],
        steps: int,
    ) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
        """Return columns of all rows, their pieces and their halves.

        A single batch runs here, on the threads of linear algebra, and reports its `steps`.
        Otherwise sums would round differently with the number of these threads: there is one.
        """
        name, batches = type(self).__name__, data.batches
        if len(batches) == 1:
            with Progress(self.progress, name, steps) as progress:
                answers = [solve(batches[0], progress.advance)]
                progress.advance()
        else:
            answers = []
            with Progress(self.progress, name, len(batches)) as progress, one_blas_thread():
                work = joblib.Parallel(self.n_jobs, prefer="threads", return_as="generator")
                for answer in work(joblib.delayed(_alone)(solve, batch) for batch in batches):
                    answers.append(answer)
                    progress.advance()
        return _collected(len(data.labels.codes), batches, answers)


def _alone(solve: Callable[..., Answer], pieces: Pieces) -> Answer:
    # For workers that are processes of their own.
    with one_blas_thread():
        return solve(pieces, None)


def _batches(parts: list[Pieces], n_features: int) -> Iterator[Pieces]:
    """Cut pieces into batches that fit in little memory, however many workers there are."""
    for part in parts:
        # 4 bytes a number, as in single precision; batches of doubles are twice as large.
        size = 4 * math.prod(part.index.shape[1:]) * max(1, n_features)
        step = max(1, _BATCH_BYTES // size)
        for start in range(0, part.n_pieces, step):
            yield part[start : start + step]


def _collected(
    n_samples: int, batches: list[Pieces], answers: list[Answer]
) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Return the answers of all batches in the order of the samples, with pieces and halves."""
    columns: dict[str, np.ndarray] = {}
    piece = np.full(n_samples, -1, dtype=np.int64)
    half = np.zeros(n_samples, dtype=np.int64)
    first = 0
    for pieces, answer in zip(batches, answers, strict=True):
        # A sample is judged in one slot at most, so no entry is written twice.
        sample = pieces.index[pieces.judged]
        for name, values in answer.items():
            store = columns.setdefault(name, np.zeros(n_samples, dtype=values.dtype))
            store[sample] = values[pieces.judged]
        where = np.nonzero(pieces.judged)
        piece[sample], half[sample] = first + where[0], where[1]
        first += pieces.n_pieces
    return columns, piece, half


def cut_by_piece(
    piece: np.ndarray, half: np.ndarray, codes: np.ndarray, *, pooled: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the cut group of each row, and the table of cut groups: piece, half and class.

    A cut group is a class in one half of a piece, or all of its classes; these are -1 then.
    """
    # Room for -1, the class of a pooled cut group, which becomes 0.
    width = 1 if pooled else int(codes.max()) + 2
    column = 0 if pooled else codes.astype(np.int64) + 1
    keys, cut_group = np.unique((piece * 2 + half) * width + column, return_inverse=True)
    place, shifted = np.divmod(keys, width)
    return cut_group, np.stack([place // 2, place % 2, shifted - 1], axis=1)
