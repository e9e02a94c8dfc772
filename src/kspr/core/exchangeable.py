"""Random knockoff labels, all of them at once: cut-offs for wrong labels that fall evenly.

If a wrong label is any of the wrong classes with equal chance, it could as well have been its
knockoff: swapping the two changes nothing that can be seen. So among pairs whose magnitude,
``min(Z, Z~)``, is the same, a wrong label is ahead as often as behind. Instead of drawing one
knockoff, all ``c - 1`` are compared, each with the weight of its chance: expected counts, and an
answer that does not depend on a draw. `docs/theory.md` has the proof and what it assumes.
"""

import numpy as np

from kspr.core.arrays import reachable
from kspr.core.grading import GradeLevels

__all__ = ["Losses", "lead"]

_OCTAVES = 16
_LARGEST = 16.0
"""Times are graded over so many doublings up to the largest; what is outside counts as its end."""
_FINEST, _TABLE = 12, 1 << 24
"""Bits of a time that are told apart within a doubling, and entries of the table of all cut groups,
at most: very many cut groups have fewer grades."""


def lead(Z: np.ndarray, label: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each label's own time, and the share of the other classes that it beats."""
    own = Z[np.arange(len(label)), label]
    # Strictly below: a label does not beat itself.
    beaten = np.sum(own[:, None] < Z, axis=1)
    return own, beaten / (Z.shape[1] - 1)


class Losses:
    """How often labels lost to other classes below every cut, by the samples added so far.

    Times are cut at fixed grades. A grade is a step of at most a fortieth of a percent of the time,
    unless there are very many cut groups; what falls into one enters together. So blocks need one
    pass, states of any blocks merge to the same counts, and their size does not depend on the rows.
    """

    def __init__(self, n_classes: int, *, pooled: bool) -> None:
        self._n_classes, self._pooled = n_classes, pooled
        self._groups = 1 if pooled else n_classes
        room = max(2, _TABLE // (self._groups * _OCTAVES))
        self._bits = min(_FINEST, int(np.log2(room)))
        self._steps = _OCTAVES << self._bits
        self._beaten = np.zeros(self._groups * self._steps, dtype=np.int64)
        self._lost = np.zeros_like(self._beaten)

    def add(self, Z: np.ndarray, label: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Add a block: the times of all classes as labels. Return the labels' grades and `lead`.

        A label that does not beat half of the others is never kept: its grade is -1.
        """
        own, share = lead(Z, label)
        ahead = share >= 0.5
        grade = np.where(ahead, self._grades(own), -1).astype(np.int32)
        first = self._first[label]
        beaten = np.rint(share * (self._n_classes - 1)).astype(np.int64)
        np.add.at(self._beaten, (first + grade)[ahead], beaten[ahead])
        for g in np.unique(first):
            member = first == g
            lost = self._grades(_losses(Z[member], own[member]))
            self._lost[g : g + self._steps] += np.bincount(lost, minlength=self._steps)
        return grade, np.where(ahead, -own, own)

    def merge(self, other: "Losses") -> None:
        """Add the counts of other samples."""
        self._beaten += other._beaten
        self._lost += other._lost

    def levels(self, floor: np.ndarray | None) -> GradeLevels:
        """Return the smallest level at which each grade is kept; inf for labels without a grade.

        Kept are labels that beat at least half of the others, smallest time first. One of the
        ``c - 1`` alternatives of a wrong label is its true class, to which it loses: that is no
        sign of another wrong label. `floor`, a lower bound of the share of wrong labels per class,
        subtracts these losses.
        """
        odds = _odds(floor, self._n_classes, pooled=self._pooled)
        others = self._n_classes - 1
        found = np.empty(len(self._lost))
        for g in range(self._groups):
            here = slice(g * self._steps, (g + 1) * self._steps)
            # Sums of whole numbers: their order has no part.
            kept, behind = (np.cumsum(c[here]) / others for c in (self._beaten, self._lost))
            off = odds[g] / others
            wrong = np.clip((behind - off * kept) / (1.0 - off), 0.0, behind)
            # A grade that no label has is no place to cut at.
            wrong[self._beaten[here] == 0] = 0.0
            estimate = np.full(self._steps, np.inf)
            np.divide(1.0 + np.maximum.accumulate(wrong), kept, out=estimate, where=kept > 0)
            found[here] = reachable(estimate)
        return GradeLevels(self._first, found, hopeless=np.inf)

    @property
    def _first(self) -> np.ndarray:
        """Where the grades of each class begin."""
        groups = np.zeros(self._n_classes) if self._pooled else np.arange(self._n_classes)
        return groups.astype(np.int64) * self._steps

    def _grades(self, times: np.ndarray) -> np.ndarray:
        """Return small whole numbers that grow with the times: the leading bits of these."""
        shown = np.minimum(times, _LARGEST * (1 - 2.0**-20)).astype(np.float32)
        # The bits of floats that are not negative are in the order of the floats.
        bits = shown.view(np.int32) >> (23 - self._bits)
        top = int(np.float32(_LARGEST).view(np.int32)) >> (23 - self._bits)
        return np.asarray(np.maximum(bits - (top - self._steps), 0), dtype=np.int64)


def _odds(floor: np.ndarray | None, n_classes: int, *, pooled: bool) -> np.ndarray:
    """Return wrong labels per right one, class by class, as far as they are certain."""
    share = np.zeros(n_classes) if floor is None else floor
    if pooled:
        share = np.full(n_classes, share.mean())
    return np.asarray(share / (1.0 - share))


def _losses(Z: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Return the time of every class that beats a label.

    A class that does not itself beat half of the others is left out: as a label it would not
    have been kept either, and a pair counts whichever of the two is the label, or not at all.
    """
    # The class at place p, from 0, beats c - 1 - p others: at least half of them up to this p.
    last = (Z.shape[1] + 1) // 2 - 1
    limit = np.partition(Z, last, axis=1)[:, last]
    return np.asarray(Z[(own[:, None] > Z) & (limit[:, None] >= Z)])
