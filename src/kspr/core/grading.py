"""Levels from graded doubt: weighted counts per grade, added up block by block.

Every sample is graded by its doubt of every class as its label. The levels need no more than
counts per grade, weighted by what a sample with its label tells of the wrong ones of a class
(`Transition.weights`): sums, which blocks of samples add to and which merge. Weights are rounded
so that these sums are exact: in whatever order they are added, the answer has the same bits.
"""

from dataclasses import dataclass

import numpy as np

from kspr.core.arrays import reachable, row_blocks
from kspr.core.transition import Transition

__all__ = ["CAUTION", "GradeCounts", "Graded", "Grading", "transition_levels"]

CAUTION = 0.84
"""Standard errors on top of every estimate: about four in five are then not too low."""
_GRADES = 1 << 14
_TABLE = 1 << 24
"""Entries of a table of all cut groups and grades, at most: very many cut groups have fewer grades,
each of a larger step of the odds."""
_LEAST = 1e-7
"""Smallest chance that is told from smaller ones."""
_HOPELESS, _FEW_CLASSES = 1e-4, 256
"""Chance to be right below which a label is never kept where there are more classes than this: most
pairs of a sample and a class are of that kind, and counting them would take most of the time."""


def transition_levels(
    right: np.ndarray, label: np.ndarray, transition: Transition, *, pooled: bool
) -> np.ndarray:
    """Return the smallest level at which each sample is kept, those most likely right first.

    `right` ``(rows, classes)`` is the chance that each class would be right as the label; it may
    use no sample's own label. One cut per class, or one for all.
    """
    grading = Grading(transition, len(label), pooled=pooled)
    counts, own = grading.no_counts(), np.empty(len(label), dtype=np.int16)
    for rows in row_blocks(*right.shape):
        graded = grading.grade(right[rows], label[rows])
        counts.add(graded)
        own[rows] = graded.own
    return grading.levels(counts).of(own, label)


@dataclass(frozen=True)
class Graded:
    """A block of samples, graded."""

    place: np.ndarray
    """Where each pair of a sample and a class counts."""
    weights: np.ndarray
    """What it counts there: ``(3, pairs)``."""
    kept: np.ndarray
    """Where the samples count as kept."""
    own: np.ndarray
    """Grades of the samples' labels; -1 for a label without hope."""


class GradeCounts:
    """Weighted counts per grade of the samples that were added so far."""

    def __init__(self, n_places: int) -> None:
        self.totals = np.zeros((3, n_places))
        self.kept = np.zeros(n_places, dtype=np.int64)

    def add(self, graded: Graded) -> None:
        """Add a block."""
        for total, weight in zip(self.totals, graded.weights, strict=True):
            np.add.at(total, graded.place, weight)
        np.add.at(self.kept, graded.kept, 1)

    def merge(self, other: "GradeCounts") -> None:
        """Add the counts of other samples that were graded in the same way."""
        self.totals += other.totals
        self.kept += other.kept


@dataclass(frozen=True)
class GradeLevels:
    """The smallest level at which each grade of a cut group is kept."""

    first: np.ndarray
    """Where the grades of each class begin in a line of all cut groups."""
    line: np.ndarray
    """The levels of that line."""
    hopeless: float = 1.0
    """The level of labels that have no grade."""

    @property
    def table(self) -> np.ndarray:
        """All levels, and last that of labels without a grade."""
        return np.append(self.line, self.hopeless)

    def places(self, own: np.ndarray, label: np.ndarray) -> np.ndarray:
        """Return where in `table` the levels of samples are, given the grades of their labels."""
        place = np.where(own < 0, len(self.line), self.first[label] + own)
        return place.astype(np.min_scalar_type(len(self.line)))

    def of(self, own: np.ndarray, label: np.ndarray) -> np.ndarray:
        """Return the levels of samples, given the grades of their labels."""
        return np.asarray(self.table[self.places(own, label)])


class Grading:
    """How samples are graded and counted, `n_rows` of them in all."""

    def __init__(self, transition: Transition, n_rows: int, *, pooled: bool) -> None:
        n_classes = len(transition.right)
        self._groups = 1 if pooled else n_classes
        self._steps = min(_GRADES, _TABLE // self._groups)
        self._least = _HOPELESS if n_classes > _FEW_CLASSES else 0.0
        self._first = np.zeros(n_classes, dtype=np.int64)
        if not pooled:
            self._first = np.arange(n_classes) * self._steps
        # No sum of these weights needs more than the 53 bits of a float, so none is ever rounded.
        largest = np.maximum(n_rows * transition.weight_bounds(), 1e-300)
        self._units = 2.0 ** (np.ceil(np.log2(largest)) - 52)
        self._transition, self._table = transition, None
        if transition.written:
            # All weights, label by label.
            pairs = np.divmod(np.arange(n_classes**2), n_classes)
            self._table = self._rounded(transition.weights(*pairs))

    def no_counts(self) -> GradeCounts:
        """Return the counts before any block is added."""
        return GradeCounts(self._groups * self._steps)

    def grade(self, right: np.ndarray, label: np.ndarray) -> Graded:
        """Return what a block ``(rows, classes)`` has to add."""
        row, column = np.nonzero(right >= self._least)
        place = self._grades(right[row, column]) + self._first[column]
        weights = self._weights(label[row], column)
        chance = right[np.arange(len(label)), label]
        own = np.where(chance >= self._least, self._grades(chance), -1)
        return Graded(place, weights, (self._first[label] + own)[own >= 0], own.astype(np.int16))

    def levels(self, counts: GradeCounts) -> GradeLevels:
        """Return the smallest level at which each grade is kept, given the counts of all blocks."""
        line = np.empty(len(counts.kept))
        for start in range(0, len(line), self._steps):
            group = slice(start, start + self._steps)
            line[group] = _levels(counts.kept[group], counts.totals[:, group])
        return GradeLevels(self._first, line)

    def _weights(self, label: np.ndarray, column: np.ndarray) -> np.ndarray:
        if self._table is None:
            return self._rounded(self._transition.weights(label, column))
        return np.asarray(self._table[:, label * len(self._first) + column])

    def _rounded(self, weights: np.ndarray) -> np.ndarray:
        return np.asarray(np.rint(weights / self._units[:, None]) * self._units[:, None])

    def _grades(self, right: np.ndarray) -> np.ndarray:
        """Return small whole numbers that grow with doubt: nothing is sorted.

        Equal steps in log-odds keep the clearest samples apart; what falls into one step, usually a
        fifth of a percent of the odds, enters together.
        """
        odds = np.log(np.maximum(1.0 - right, _LEAST) / np.maximum(right, _LEAST))
        step = (self._steps - 1) / (-2 * np.log(_LEAST))
        return np.asarray(np.rint((odds - np.log(_LEAST)) * step).astype(np.int64))


def _levels(kept: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Return the smallest level at which each grade of a cut group is kept."""
    kept = np.cumsum(kept)
    wrong, variance, change = np.cumsum(totals, axis=1)
    # Two sources of error: the counts of these samples, and the matrix itself.
    wrong = wrong + CAUTION * np.sqrt(variance + change**2)
    # A looser cut cannot hold fewer wrong labels, nor more than it keeps.
    wrong = np.minimum(np.maximum.accumulate(np.maximum(wrong, 0.0)), kept)
    return reachable((1.0 + wrong) / np.maximum(kept, 1))
