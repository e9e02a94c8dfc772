"""Levels from graded doubt: weighted counts per grade, added up block by block.

Every sample is graded by its doubt of every class as its label. The levels need no more than
counts per grade, weighted by what a sample with its label tells of the wrong ones of a class
(`Transition.weights`): sums, which blocks of samples add to and which merge.
"""

import numpy as np

from kspr.core.arrays import row_blocks
from kspr.core.cutoffs import reachable
from kspr.core.transition import AnyTransition

__all__ = ["CAUTION", "Grading", "transition_levels"]

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
    right: np.ndarray, label: np.ndarray, transition: AnyTransition, *, pooled: bool
) -> np.ndarray:
    """Return the smallest level at which each sample is kept, those most likely right first.

    `right` ``(rows, classes)`` is the chance that each class would be right as the label; it may
    use no sample's own label. One cut per class, or one for all.
    """
    grading = Grading(transition, pooled=pooled)
    own = np.concatenate(
        [grading.add(right[rows], label[rows]) for rows in row_blocks(*right.shape)]
    )
    return grading.levels(own, label)


class Grading:
    """Weighted counts per grade of the samples that were added so far."""

    def __init__(self, transition: AnyTransition, *, pooled: bool) -> None:
        self._transition = transition
        n_classes = len(transition.right)
        groups = 1 if pooled else n_classes
        self._steps = min(_GRADES, _TABLE // groups)
        self._least = _HOPELESS if n_classes > _FEW_CLASSES else 0.0
        # Where the grades of each class begin in a line of all cut groups.
        self._first = np.zeros(n_classes, dtype=np.int64)
        if not pooled:
            self._first = np.arange(n_classes) * self._steps
        self._totals = np.zeros((3, groups * self._steps))
        self._kept = np.zeros(groups * self._steps, dtype=np.int64)

    def add(self, right: np.ndarray, label: np.ndarray) -> np.ndarray:
        """Add a block ``(rows, classes)``, and return the grades of its labels; -1: hopeless."""
        row, column = np.nonzero(right >= self._least)
        place = self._grades(right[row, column]) + self._first[column]
        weights = self._transition.weights(label[row], column)
        for total, weight in zip(self._totals, weights, strict=True):
            np.add.at(total, place, weight)
        chance = right[np.arange(len(label)), label]
        own = self._grades(chance)
        hope = chance >= self._least
        np.add.at(self._kept, (self._first[label] + own)[hope], 1)
        return np.where(hope, own, -1).astype(np.int16)

    def merge(self, other: "Grading") -> None:
        """Add the counts of `other`, which grades other samples by the same transition matrix."""
        self._totals += other._totals
        self._kept += other._kept

    def levels(self, own: np.ndarray, label: np.ndarray) -> np.ndarray:
        """Return the smallest level at which samples are kept, given the grades of their labels.

        A label without hope has the level 1.
        """
        found = np.empty(len(self._kept))
        for start in range(0, len(found), self._steps):
            group = slice(start, start + self._steps)
            found[group] = _levels(self._kept[group], self._totals[:, group])
        levels = np.empty(len(own))
        for rows in row_blocks(len(own), 8):
            place = self._first[label[rows]] + own[rows]
            levels[rows] = np.where(own[rows] < 0, 1.0, found[place])
        return levels

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
