"""Which suspects get their suggested label, which a person should look at, and what that gains."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kspr.errors import InputError
from kspr.selectors.validation import check_rate

if TYPE_CHECKING:
    from kspr.selectors.selection import Selection

__all__ = ["PILES", "THRESHOLD", "Relabelling", "relabelling"]

PILES = ("change", "look at", "leave")
THRESHOLD = 0.8
"""Least probability of a suggestion that replaces a label."""
_CAUTION = (
    " This is so if labels go wrong as the fit says. Where people confuse classes that look alike, "
    "up to half of the changed labels had been right in our measurements: look at some first."
)


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


def relabelling(selection: "Selection", threshold: float) -> Relabelling:
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
