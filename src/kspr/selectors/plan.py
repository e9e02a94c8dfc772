"""What to do about wrong labels: which rows a person must label, and which labels to change."""

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

_STREAM = 0x74696573
"""Keeps the order of ties apart from a user's own `default_rng(0)`."""
PILES = ("change", "look at", "leave")
THRESHOLD = 0.8
"""Least probability of a suggestion that replaces a label."""
_CAUTION = (
    " This is so if labels go wrong as the fit says. Where people confuse classes that look alike, "
    "up to half of the changed labels had been right in our measurements: look at some first."
)


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


@dataclass(frozen=True, eq=False, repr=False)
class Relabelling:
    """What to do with every label, and what is expected of it. Print it to read it."""

    pile: np.ndarray
    """``"change"`` to the suggested label, ``"look at"``, or ``"leave"``; one entry per sample."""
    label: np.ndarray
    """The labels after the change."""
    threshold: float
    """Least probability of a suggestion that replaces a label."""
    made_right: float
    """Expected number of changed labels that become right."""
    made_wrong: float
    """Expected number of changed labels that were right, if labels go wrong as the fit says.

    People who confuse classes that look alike err where the fit errs, too: of texts of 77 and 150
    classes with such mistakes, a fifth to a half of the changed labels had been right.
    """

    @property
    def gain(self) -> float:
        """Expected number of labels that become right, less those that become wrong."""
        return self.made_right - self.made_wrong

    def count(self, pile: str) -> int:
        """Return the number of samples in a pile."""
        return int(np.sum(self.pile == pile))

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        change, look, leave = (self.count(pile) for pile in PILES)
        return (
            f"Change {change:,} labels: of these about {self.made_right:,.0f} become right, and "
            f"about {self.made_wrong:,.0f} were right before. Look at {look:,}, leave {leave:,}."
            + (_CAUTION if change else "")
        )


def relabelling(selection: Selection, threshold: float) -> Relabelling:
    """Return the three piles of a selection."""
    threshold = check_rate("threshold", threshold)
    chance = selection.suggestion_probability
    if chance is None:
        raise InputError(
            "relabel() needs the probability of each suggestion, which goes with "
            "control='transition'. Fit with it."
        )
    label, suggested = selection.label_code, selection.suggested_code
    change = ~selection.clean_mask & (suggested != label) & (chance >= threshold)
    pile = np.where(selection.clean_mask, np.uint8(2), np.uint8(1))
    pile[change] = 0
    # The given label and the suggestion cannot both be right.
    given = np.minimum(1.0 - selection.doubt[change], 1.0 - chance[change])
    return Relabelling(
        pile=np.array(PILES)[pile],
        label=selection.classes[np.where(change, suggested, label)],
        threshold=threshold,
        made_right=float(chance[change].sum()),
        made_wrong=float(given.sum()),
    )
