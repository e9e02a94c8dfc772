"""Random knockoff labels, all of them at once: cut-offs for wrong labels that fall evenly.

If a wrong label is any of the wrong classes with equal chance, it could as well have been its
knockoff: swapping the two changes nothing that can be seen. So among pairs whose magnitude,
``min(Z, Z~)``, is the same, a wrong label is ahead as often as behind. Instead of drawing one
knockoff, all ``c - 1`` are compared, each with the weight of its chance: expected counts, and an
answer that does not depend on a draw. `docs/theory.md` has the proof and what it assumes.
Results are on the host by now, so these functions take NumPy arrays only.
"""

import numpy as np

from kspr.core.arrays import reachable
from kspr.core.grading import GradeLevels

__all__ = ["GradedLosses", "Losses", "exchangeable_levels", "lead"]

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


def exchangeable_levels(
    Z: np.ndarray, label: np.ndarray, floor: np.ndarray | None, *, pooled: bool
) -> np.ndarray:
    """Return the smallest level at which each sample is kept; inf for one that never is.

    `Z` ``(rows, classes)`` are the times of all classes as labels. Kept are labels that beat at
    least half of the others, smallest time first.
    """
    own, share = lead(Z, label)
    losses = Losses(own, share, label, Z.shape[1], pooled=pooled)
    losses.add(Z, own, label)
    return losses.levels(floor)


class Losses:
    """How often labels lost to other classes below every cut, by the samples added so far.

    `own` and `share` are those of all samples (`lead`): they set the cuts.
    """

    def __init__(
        self,
        own: np.ndarray,
        share: np.ndarray,
        label: np.ndarray,
        n_classes: int,
        *,
        pooled: bool,
    ) -> None:
        self._own, self._share, self._n_classes, self._pooled = own, share, n_classes, pooled
        ahead = np.flatnonzero(share >= 0.5)
        ahead = ahead[np.argsort(own[ahead], kind="stable")]
        group = self._group(label)
        # The rows that can be kept, smallest time first, one cut group after the other.
        self._order = ahead[np.argsort(group[ahead], kind="stable")]
        groups = 1 if pooled else n_classes
        self._ends = np.searchsorted(group[self._order], np.arange(groups + 1))
        self._cuts = own[self._order]
        # Losses between two cuts; the last entry of a group is for those above all of its cuts.
        self._counts = np.zeros(len(self._cuts) + groups, dtype=np.int64)

    def add(self, Z: np.ndarray, own: np.ndarray, label: np.ndarray) -> None:
        """Add a block: the times of all classes as labels, and of the given labels."""
        group = self._group(label)
        for g in np.unique(group):
            member = group == g
            times = _losses(Z[member], own[member])
            first, last = self._ends[g : g + 2]
            place = np.searchsorted(self._cuts[first:last], times)
            here = slice(first + g, last + g + 1)
            self._counts[here] += np.bincount(place, minlength=last - first + 1)

    def merge(self, other: "Losses") -> None:
        """Add the losses of other samples; the cuts are the same."""
        self._counts += other._counts

    def levels(self, floor: np.ndarray | None) -> np.ndarray:
        """Return the smallest level at which each sample is kept; inf for one that never is.

        One of the ``c - 1`` alternatives of a wrong label is its true class, to which it loses:
        that is no sign of another wrong label. `floor`, a lower bound of the share of wrong labels
        per class, subtracts these losses.
        """
        levels = np.full(len(self._own), np.inf)
        odds = _odds(floor, self._n_classes, pooled=self._pooled)
        for g in range(len(self._ends) - 1):
            first, last = self._ends[g : g + 2]
            order, cuts = self._order[first:last], self._cuts[first:last]
            # Each counts as the share that it beats: its expected wins over a random knockoff.
            wins = np.concatenate([[0.0], np.cumsum(self._share[order])])
            kept = wins[np.searchsorted(cuts, cuts, side="right")]
            behind = np.cumsum(self._counts[first + g : last + g]) / (self._n_classes - 1)
            off = odds[g] / (self._n_classes - 1)
            # Where more are behind than ahead there is nothing to take off.
            wrong = np.clip((behind - off * kept) / (1.0 - off), 0.0, behind)
            # A looser cut cannot hold fewer wrong labels, but what is taken off grows with it.
            levels[order] = reachable((1.0 + np.maximum.accumulate(wrong)) / kept)
        return levels

    def _group(self, label: np.ndarray) -> np.ndarray:
        return np.zeros_like(label) if self._pooled else label


class GradedLosses:
    """The same as `Losses` for more rows than should be sorted: times are cut at fixed grades.

    A grade is a step of at most a fortieth of a percent of the time, unless there are very many
    cut groups; what falls into one enters together. So blocks need one pass, states of any blocks
    merge to the same counts, and their size does not depend on the rows.
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

    def merge(self, other: "GradedLosses") -> None:
        """Add the counts of other samples."""
        self._beaten += other._beaten
        self._lost += other._lost

    def fresh(self) -> "GradedLosses":
        """Return the same before any block is added."""
        return GradedLosses(self._n_classes, pooled=self._pooled)

    def levels(self, floor: np.ndarray | None) -> GradeLevels:
        """Return the smallest level at which each grade is kept; `floor` as for `Losses`."""
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
