"""Random knockoff labels, all of them at once: cut-offs for wrong labels that fall evenly.

If a wrong label is any of the wrong classes with equal chance, it could as well have been its
knockoff: swapping the two changes nothing that can be seen. So among pairs whose magnitude,
``min(Z, Z~)``, is the same, a wrong label is ahead as often as behind. Instead of drawing one
knockoff, all ``c - 1`` are compared, each with the weight of its chance: expected counts, and an
answer that does not depend on a draw. `docs/theory.md` has the proof and what it assumes.
"""

import numpy as np

from kspr.core.arrays import reachable
from kspr.core.grading import GradeLevels, Tally

__all__ = ["Losses"]

_OCTAVES = 16
_LARGEST = 16.0
"""Times are graded over so many doublings up to the largest; what is outside counts as its end."""
_FINEST, _TABLE = 12, 1 << 24
"""Bits of a time that are told apart within a doubling, and entries of the table of all cut groups,
at most: very many cut groups have fewer grades."""


class Losses:
    """How often labels lost to other classes below every cut, and how many they beat.

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
        own = Z[np.arange(len(label)), label]
        # Strictly below: a label does not beat itself.
        beaten = np.sum(own[:, None] < Z, axis=1)
        ahead = 2 * beaten >= self._others
        grade = np.where(ahead, self._grades(own), -1)
        row, lost = _losses(Z, own)
        won = (self._first[label] + grade)[ahead]
        weights = np.zeros((2, len(won) + len(lost)))
        weights[0, : len(won)] = beaten[ahead]
        weights[1, len(won) :] = 1.0
        place = np.concatenate([won, self._first[label[row]] + self._grades(lost)])
        tally = Tally.of(self._n_places, place, weights)
        return tally, grade.astype(np.int32), np.where(ahead, own, np.inf)

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


def _losses(Z: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of the classes that beat a label, and their times.

    A class that does not itself beat half of the others is left out: as a label it would not
    have been kept either, and a pair counts whichever of the two is the label, or not at all.
    """
    # The class at place p, from 0, beats c - 1 - p others: at least half of them up to this p.
    last = (Z.shape[1] + 1) // 2 - 1
    limit = np.partition(Z, last, axis=1)[:, last]
    row, column = np.nonzero((own[:, None] > Z) & (limit[:, None] >= Z))
    return row, Z[row, column]
