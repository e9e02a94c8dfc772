"""Levels from graded doubt: weighted counts per grade, added up block by block.

Every sample is graded by its doubt of every class as its label. The levels need no more than
counts per grade, weighted by what a sample with its label tells of the wrong ones of a class
(`Transition.weights`): sums, to which blocks of samples add. Weights are rounded so that these
sums are exact: in whatever order they are added, the answer has the same bits.

`Grading` counts by the chances that labels are right, `Losses` by random knockoff labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kspr.core.arrays import reachable
from kspr.core.transition import Transition

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
_UNLIKELY, _VERY_MANY = 0.02, 4096
"""The same where classes are so many that half of all pairs still stay: less clear ones are then
left out, too. The levels of all others are what they were (of 6,000 classes, with three quarters
of the processor time)."""
_OCTAVES = 16
_LARGEST = 16.0
"""Times are graded over so many doublings up to the largest; what is outside counts as its end."""
_FINEST = 12
"""Bits of a time that are told apart within a doubling, at most."""


@dataclass(frozen=True)
class Tally:
    """Sums by place in a long table, of which only the places with a sum are stored."""

    n_places: int
    place: np.ndarray
    """The places, ascending."""
    sums: np.ndarray
    """``(kinds, places)``."""

    @classmethod
    def of(cls, n_places: int, place: np.ndarray, weights: np.ndarray) -> "Tally":
        """Return the sums of `weights`, ``(kinds, entries)``, by the `place` of each entry."""
        if n_places <= 4 * len(place):
            known = np.flatnonzero(np.bincount(place, minlength=n_places))
            sums = [np.bincount(place, weight, n_places)[known] for weight in weights]
        else:
            known, number = np.unique(place, return_inverse=True)
            sums = [np.bincount(number, weight, len(known)) for weight in weights]
        return cls(n_places, known, np.array(sums))

    @classmethod
    def joined(cls, tallies: Sequence["Tally"]) -> "Tally":
        """Return the sums of several tallies of one table."""
        place = np.concatenate([tally.place for tally in tallies])
        sums = np.concatenate([tally.sums for tally in tallies], axis=1)
        return cls.of(tallies[0].n_places, place, sums)

    def table(self) -> np.ndarray:
        """Return the whole table, ``(kinds, places)``."""
        table = np.zeros((len(self.sums), self.n_places))
        table[:, self.place] = self.sums
        return table


@dataclass(frozen=True)
class GradeLevels:
    """The smallest level at which each grade of a cut group is kept."""

    first: np.ndarray
    """Where the grades of each class begin in a line of all cut groups."""
    level: np.ndarray
    """The levels of that line."""
    hopeless: float = 1.0
    """The level of labels that have no grade."""

    def of(self, grade: np.ndarray, label: np.ndarray) -> np.ndarray:
        """Return the levels of samples, given the grades of their labels; -1 for none."""
        return np.where(grade < 0, self.hopeless, self.level[self.first[label] + grade])


class Grading:
    """How samples are graded and counted, `n_rows` of them in all.

    Wrong labels are counted through the matrix of noise that depends on the class only. That does
    not rest on the chances themselves. Without such a matrix the chances are added up.
    """

    def __init__(
        self, n_classes: int, n_rows: int, transition: Transition | None, *, pooled: bool
    ) -> None:
        groups = 1 if pooled else n_classes
        self._steps = min(_GRADES, _TABLE // groups)
        self._n_places = groups * self._steps
        self._least = _HOPELESS if n_classes > _FEW_CLASSES else 0.0
        self._least = _UNLIKELY if n_classes > _VERY_MANY else self._least
        self._first = np.zeros(n_classes, dtype=np.int64)
        if not pooled:
            self._first = np.arange(n_classes) * self._steps
        bounds = np.ones(3) if transition is None else transition.weight_bounds()
        # No sum of these weights needs more than the 53 bits of a float, so none is ever rounded.
        self._units = 2.0 ** (np.ceil(np.log2(np.maximum(n_rows * bounds, 1e-300))) - 52)
        self._transition, self._table = transition, None
        if transition is not None and transition.written:
            # All weights, label by label.
            pairs = np.divmod(np.arange(n_classes**2), n_classes)
            self._table = self._rounded(transition.weights(*pairs))

    def count(self, right: np.ndarray, label: np.ndarray) -> tuple[Tally, np.ndarray]:
        """Return the counts of a block, and the grades of its labels; -1 for one without hope.

        `right` ``(rows, classes)`` is the chance that each class would be right as the label.
        """
        chance = right[np.arange(len(label)), label]
        grade = np.where(chance >= self._least, self._grades(chance), -1)
        place = kept = (self._first[label] + grade)[grade >= 0]
        # Three sums of weights, and one of the labels themselves.
        if self._transition is None:
            wrong = 1.0 - chance[grade >= 0].astype(np.float64)
            weights = self._rounded(np.stack([wrong, wrong * (1.0 - wrong), np.zeros_like(wrong)]))
            weights = np.concatenate([weights, np.ones((1, len(kept)))])
        else:
            row, column = np.nonzero(right >= self._least)
            place = np.append(self._grades(right[row, column]) + self._first[column], kept)
            weights = np.zeros((4, len(place)))
            if self._table is None:
                told = self._rounded(self._transition.weights(label[row], column))
            else:
                told = self._table[:, label[row] * len(self._first) + column]
            weights[:3, : len(row)] = told
            weights[3, len(row) :] = 1.0
        return Tally.of(self._n_places, place, weights), grade.astype(np.int16)

    def levels(self, tally: Tally) -> GradeLevels:
        """Return the smallest level at which each grade is kept, given the counts of all blocks."""
        *totals, kept = tally.table()
        levels = np.empty(self._n_places)
        for start in range(0, self._n_places, self._steps):
            group = slice(start, start + self._steps)
            levels[group] = _levels(kept[group], [total[group] for total in totals])
        return GradeLevels(self._first, levels)

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


def _levels(kept: np.ndarray, totals: Sequence[np.ndarray]) -> np.ndarray:
    """Return the smallest level at which each grade of a cut group is kept."""
    kept = np.cumsum(kept)
    wrong, variance, change = np.cumsum(totals, axis=1)
    # Two sources of error: the counts of these samples, and the matrix itself.
    wrong = wrong + CAUTION * np.sqrt(variance + change**2)
    # A looser cut cannot hold fewer wrong labels, nor more than it keeps.
    wrong = np.minimum(np.maximum.accumulate(np.maximum(wrong, 0.0)), kept)
    return reachable((1.0 + wrong) / np.maximum(kept, 1))


class Losses:
    """How often labels lost to other classes below every cut, and how many they beat.

    If a wrong label is any of the wrong classes with equal chance, it could as well have been its
    knockoff: swapping the two changes nothing that can be seen. So among pairs whose magnitude,
    ``min(Z, Z~)``, is the same, a wrong label is ahead as often as behind. Instead of drawing one
    knockoff, all ``c - 1`` are compared, each with the weight of its chance: expected counts, and
    an answer that does not depend on a draw. `docs/theory.md` has the proof and what it assumes.

    Times are cut at fixed grades, each a step of at most a fortieth of a percent of the time unless
    there are very many cut groups; what falls into one enters together. Kept are labels that beat
    at least half of the others, smallest time first.
    """

    def __init__(self, n_classes: int, *, pooled: bool) -> None:
        self._others, groups = n_classes - 1, 1 if pooled else n_classes
        room = max(2, _TABLE // (groups * _OCTAVES))
        self._bits = min(_FINEST, int(np.log2(room)))
        self._steps = _OCTAVES << self._bits
        self._n_places = groups * self._steps
        self._first = np.zeros(n_classes, dtype=np.int64)
        if not pooled:
            self._first = np.arange(n_classes) * self._steps

    def count(self, Z: np.ndarray, label: np.ndarray) -> tuple[Tally, np.ndarray, np.ndarray]:
        """Return the counts of a block, the grades of its labels, and their doubt.

        `Z` ``(rows, classes)`` are the times of all classes as labels. The doubt is the label's own
        time. A label that does not beat half of the others is never kept: its grade is -1, and its
        doubt infinite.
        """
        time = Z[np.arange(len(label)), label]
        # Strictly below: a label does not beat itself.
        beaten = np.sum(time[:, None] < Z, axis=1)
        ahead = 2 * beaten >= self._others
        grade = np.where(ahead, self._grades(time), -1)
        row, lost = _losses(Z, time)
        won = (self._first[label] + grade)[ahead]
        weights = np.zeros((2, len(won) + len(lost)))
        weights[0, : len(won)] = beaten[ahead]
        weights[1, len(won) :] = 1.0
        place = np.concatenate([won, self._first[label[row]] + self._grades(lost)])
        tally = Tally.of(self._n_places, place, weights)
        return tally, grade.astype(np.int32), np.where(ahead, time, np.inf)

    def levels(self, tally: Tally) -> GradeLevels:
        """Return the smallest level at which each grade is kept, given the counts of all blocks."""
        beaten, lost = tally.table()
        levels = np.empty(self._n_places)
        for start in range(0, self._n_places, self._steps):
            here = slice(start, start + self._steps)
            # Each label counts as the share that it beats: its expected wins over a random
            # knockoff. Sums of whole numbers: their order has no part.
            kept, behind = (np.cumsum(counts[here]) / self._others for counts in (beaten, lost))
            # A grade that no label has is no place to cut at.
            behind[beaten[here] == 0] = 0.0
            estimate = np.full(self._steps, np.inf)
            np.divide(1.0 + np.maximum.accumulate(behind), kept, out=estimate, where=kept > 0)
            levels[here] = reachable(estimate)
        return GradeLevels(self._first, levels, hopeless=np.inf)

    def _grades(self, times: np.ndarray) -> np.ndarray:
        """Return small whole numbers that grow with the times: the leading bits of these."""
        shown = np.minimum(times, _LARGEST * (1 - 2.0**-20)).astype(np.float32)
        # The bits of floats that are not negative are in the order of the floats.
        bits = shown.view(np.int32) >> (23 - self._bits)
        top = int(np.float32(_LARGEST).view(np.int32)) >> (23 - self._bits)
        return np.asarray(np.maximum(bits - (top - self._steps), 0), dtype=np.int64)


def _losses(Z: np.ndarray, time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of the classes that beat a label, and their times.

    A class that does not itself beat half of the others is left out: as a label it would not
    have been kept either, and a pair counts whichever of the two is the label, or not at all.
    """
    # The class at place p, from 0, beats c - 1 - p others: at least half of them up to this p.
    last = (Z.shape[1] + 1) // 2 - 1
    limit = np.partition(Z, last, axis=1)[:, last]
    row, column = np.nonzero((time[:, None] > Z) & (limit[:, None] >= Z))
    return row, Z[row, column]
