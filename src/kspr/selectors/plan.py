"""Which rows a person must label, so that few of the finished data set are wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kspr._text import percent
from kspr.core.conformal import most_checked_wrong
from kspr.errors import InputError
from kspr.selectors.validation import check_rate

if TYPE_CHECKING:
    from kspr.selectors.selection import Selection

__all__ = ["Plan", "plan"]

_STREAM = 0x74696573
"""Keeps the order of ties apart from a user's own `default_rng(0)`."""


@dataclass(frozen=True, eq=False)
class Plan:
    """The rows to label, and the promise about the finished data set. Print it to read it."""

    rows: np.ndarray
    """Row numbers, the most doubtful first."""
    max_wrong: float
    """Largest share of wrong labels in the finished data set."""
    confidence: float
    n: int
    """Number of all rows."""
    n_checked: int
    """Rows that a person has labelled already."""

    def __str__(self) -> str:
        by_hand = len(self.rows) + self.n_checked
        return (
            f"Label {len(self.rows):,} more rows: with the {self.n_checked:,} labelled ones, "
            f"{by_hand:,} of {self.n:,} ({percent(by_hand / self.n)}). Then at most "
            f"{percent(self.max_wrong)} of all {self.n:,} labels are wrong, with "
            f"{self.confidence:.0%} confidence, whatever the noise is: the corrected ones and the "
            "others together."
        )

    def progress(self, done: int) -> str:
        """Say how many rows are labelled, of which `done` are, and the promise then."""
        return (
            f"{done:,} of {len(self.rows):,} rows of the plan are labelled. "
            f"{'Once all are, at' if done < len(self.rows) else 'At'} most "
            f"{int(self.max_wrong * self.n):,} wrong labels are in the finished data set "
            f"({percent(self.max_wrong)} of all {self.n:,}), with {self.confidence:.0%} "
            "confidence, whatever the noise is, if people are right."
        )


def plan(selection: Selection, max_wrong: float, confidence: float) -> Plan:
    """Return the plan of a selection whose checked rows were drawn at random."""
    check_rate("max_wrong", max_wrong)
    check_rate("confidence", confidence)
    checked = selection.checked
    if checked is None or not checked.calibrate:
        raise InputError(
            "A plan needs rows that were drawn at random and checked. Draw some with "
            "draw_checks() or `kspr verify RUN --checks 400`, and pass the answers to "
            "with_checks() or `kspr verify RUN --answers FILE`."
        )
    ranking = selection._ranking(checked.q)
    # Rows outside of what was drawn from are labelled by hand.
    frame = np.ones(len(selection), bool) if checked.drawn == "all" else ranking.pool(checked.q)
    counted = checked.sampled & frame[checked.rows]
    doubt = np.where(frame, ranking.doubt, np.inf)
    most = most_checked_wrong(
        int(frame.sum()), int(counted.sum()), int(max_wrong * len(selection)), confidence
    )
    # Ties are broken at random, before any answer is known: of many rows of one doubt, few may do.
    place = np.empty(len(doubt), dtype=np.int64)
    by_chance = np.random.default_rng([0, _STREAM]).random(len(doubt))
    place[np.lexsort((by_chance, doubt))] = np.arange(len(doubt))
    wrong = np.sort(place[checked.rows[counted & ~checked.right]])
    by_hand = ~frame
    if most < 0:
        by_hand[:] = True
    elif len(wrong) > most:
        # All rows from this one on.
        by_hand |= place >= wrong[most]
    by_hand[checked.rows] = False
    rows = np.flatnonzero(by_hand)
    rows = rows[np.argsort(-place[rows])]
    return Plan(rows, max_wrong, confidence, len(selection), len(checked.rows))
