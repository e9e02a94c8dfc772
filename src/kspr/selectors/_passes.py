"""Passes over all rows in blocks: fitted values are made, used and forgotten.

Nothing that is rows times classes is kept, unless it is small. Blocks do not depend on the number
of workers, linear algebra inside a block runs on one thread, and results are taken in the order of
the rows: so neither does the answer.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from kspr._progress import Progress, ProgressMode
from kspr.core.anchors import Anchors, bin_sizes
from kspr.core.knockoffs import closed_form_times
from kspr.core.linear_fit import LinearFit
from kspr.core.procedure import Procedure, compare
from kspr.selectors.engines.local import side_by_side
from kspr.selectors.feature_rows import Features

__all__ = [
    "AllClasses",
    "Predictions",
    "Verdicts",
    "block_rows",
    "judge_rows",
    "put",
    "small_codes",
]

_BLOCK_FLOATS = 1 << 20
"""Features and fitted values of a block, together."""
_HELD = 1 << 24
"""Fitted values that are held because they are few; more are computed again in every pass."""

Result = TypeVar("Result")


def block_rows(width: int) -> int:
    """Return the rows of a block, for rows that take `width` numbers each."""
    return max(64, _BLOCK_FLOATS // width)


@dataclass(frozen=True)
class Predictions:
    """The fitted values of every class for every row, as functions of row numbers."""

    values: Callable[[slice | np.ndarray], np.ndarray]
    n_rows: int
    n_classes: int
    width: int  # numbers that a row takes while it is worked at
    progress: ProgressMode = False

    @classmethod
    def held(cls, values: np.ndarray) -> "Predictions":
        """Return fitted values that are at hand."""
        n, c = values.shape
        return cls(values.__getitem__, n, c, width=c)

    @classmethod
    def by(
        cls, fit: LinearFit, features: Features, half: np.ndarray, progress: ProgressMode = False
    ) -> "Predictions":
        """Return what `fit` says of each row; `half` is the half of the data that it is in."""

        def values(rows: slice | np.ndarray) -> np.ndarray:
            X = features.read(rows) if isinstance(rows, slice) else features.take(rows)
            return fit.predict(X, half[rows])

        n, p = features.shape
        return cls(values, n, fit.n_classes, p + fit.n_classes, progress)

    @classmethod
    def mean(cls, parts: Sequence["Predictions"]) -> "Predictions":
        """Return the mean of the fitted values of several splits.

        No fit that judges a sample has seen its label, so their mean has not either.
        """
        if len(parts) == 1:
            return parts[0]

        def values(rows: slice | np.ndarray) -> np.ndarray:
            return np.asarray(sum(part.values(rows) for part in parts) / len(parts))

        first = parts[0]
        width = max(part.width for part in parts)
        return cls(values, first.n_rows, first.n_classes, width, first.progress)

    def held_if_few(self) -> "Predictions":
        """Return the same values, computed once and held where that takes little memory."""
        if self.n_rows * self.n_classes > _HELD:
            return self
        blocks = [block for _, block in self.map(lambda _, block: block)]
        held = np.concatenate(blocks)
        # Blocks stay as they are: products in them round a row by its place.
        return replace(self, values=held.__getitem__)

    def map(
        self, function: Callable[[slice, np.ndarray], Result], what: str = "Judging rows"
    ) -> Iterator[tuple[slice, Result]]:
        """Apply `function` to the fitted values of each block; yield results in row order.

        `what` is the name of the pass that a person sees if it takes long.
        """
        step = block_rows(self.width)
        blocks = [slice(first, first + step) for first in range(0, self.n_rows, step)]
        results = side_by_side(lambda rows: function(rows, self.values(rows)), blocks)
        with Progress(self.progress, what, len(blocks)) as progress:
            for rows, result in zip(blocks, results, strict=True):
                yield rows, result
                progress.advance()


@dataclass(frozen=True)
class AllClasses:
    """What the fit says of every class, for the controls that look at more than one knockoff."""

    predictions: Predictions
    anchors: np.ndarray  # labels (column) of the samples that look most like a class (row)


@dataclass(frozen=True)
class Verdicts:
    """One entry per judged sample, in the order of the samples."""

    values: dict[str, np.ndarray]
    piece: np.ndarray
    half: np.ndarray
    all_classes: AllClasses | None = None


def judge_rows(
    predictions: Predictions,
    codes: np.ndarray,
    half: np.ndarray,
    procedure: Procedure,
    choose: Callable[[slice, np.ndarray], np.ndarray],
    counted: np.ndarray | None,
    first: Predictions | None = None,
) -> Verdicts:
    """Judge all rows in one pass.

    `choose` gives the knockoffs of a block, from its rows and its fitted values. `counted` says
    which rows can be anchors. Without it there are none, and labels are compared with knockoffs
    one by one instead: W. Where `predictions` are the mean of several splits, anchors are found by
    the `first` of these.
    """

    def judged(rows: slice, prediction: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        own, other = codes[rows], choose(rows, prediction)
        columns = {
            "knockoff": small_codes(other, predictions.n_classes),
            "suggested": small_codes(np.argmax(prediction, axis=1), predictions.n_classes),
        }
        if counted is None:
            Z, _, W = compare(prediction, own, other, procedure)
            return {"Z": Z, "W": W, **columns}, prediction
        Z = closed_form_times(prediction, own, procedure.penalty)
        # By the mean, noise of Sym. 80 % looks larger than it is, and q is passed (measured on
        # CIFAR-10).
        return {"Z": Z, **columns}, prediction if first is None else first.values(rows)

    values: dict[str, np.ndarray] = {}
    anchors = None
    if counted is not None:
        anchors = Anchors(bin_sizes(codes[counted], half[counted], predictions.n_classes))
    for rows, (columns, shown) in predictions.map(judged):
        put(values, rows, columns, len(codes))
        if anchors is not None and counted is not None:
            here = counted[rows]
            anchors.add(shown[here], codes[rows][here], half[rows][here])
    seen = None if anchors is None else AllClasses(predictions, anchors.counts())
    return Verdicts(values, np.zeros_like(half), half, seen)


def small_codes(codes: np.ndarray, n_classes: int) -> np.ndarray:
    """Return codes in few bytes: columns of all rows are what is left to fill the memory."""
    return codes.astype(np.min_scalar_type(n_classes - 1), copy=False)


def put(
    columns: dict[str, np.ndarray], rows: slice, found: dict[str, np.ndarray], n_rows: int
) -> None:
    """Write a block into columns of all rows, which are made with the first block."""
    for name, part in found.items():
        if name not in columns:
            columns[name] = np.empty(n_rows, dtype=part.dtype)
        columns[name][rows] = part
