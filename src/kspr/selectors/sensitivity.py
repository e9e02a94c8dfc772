"""How far the error rate would be off if wrong labels were more likely where rows are hard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kspr._text import percent
from kspr.errors import InputError

if TYPE_CHECKING:
    from kspr.selectors.selection import Selection

__all__ = ["FACTORS", "in_words", "rate_under"]

FACTORS = (1, 2, 4)
"""How many times as likely a wrong label may be, in the summary and on the page."""


def rate_under(selection: Selection, times: float) -> float:
    """Return the share of wrong labels among the kept ones if hard rows are mislabelled more often.

    The odds of a wrong label are taken to rise evenly in the order of doubt, from the estimated
    ones at the surest row to `times` these at the least sure one. The estimate itself comes from
    the surest rows, which is why it is too low where that is so.
    """
    if selection.control != "transition":
        raise InputError(
            "This needs the chance that a label is wrong, which only control='transition' "
            f"estimates, got {selection.control!r}."
        )
    if not times >= 1:
        raise InputError(f"times must be at least 1, got {times}.")
    kept, groups = selection.clean_mask, selection.cut_groups
    known = np.isfinite(groups.estimated_fsr) & (groups.n_kept > 0)
    if not known.any():
        return float("nan")
    rate = float(np.average(groups.estimated_fsr[known], weights=groups.n_kept[known]))
    ordered = np.sort(selection.doubt)
    doubt = selection.doubt[kept]
    # Rows of equal doubt have the mean of their ranks.
    ends = (np.searchsorted(ordered, doubt, side=side) for side in ("left", "right"))
    rank = (sum(ends) - 1) / (2 * max(len(ordered) - 1, 1))
    odds = times**rank
    doubt = np.maximum(doubt, 1e-9)
    before, after = doubt.sum(), (doubt * odds / (1 - doubt + doubt * odds)).sum()
    # The level has a margin for chance on top of the mean doubt; both grow alike.
    return min(1.0, float(rate * after / before))


def in_words(rates: Sequence[tuple[float, float]]) -> str | None:
    """Return pairs of `times` and `rate_under` as a sentence; None without any.

    >>> in_words([(1, 0.049), (2, 0.076), (4, 0.112)]).partition(": ")[2]
    'about 4.9 % if 1 time as likely, 7.6 % if 2 times, 11.2 % if 4 times.'
    """
    known = [(times, rate) for times, rate in rates if np.isfinite(rate)]
    if not known:
        return None
    parts = [f"{percent(rate)} if {times:g} time{'s' * (times != 1)}" for times, rate in known]
    parts[0] += " as likely"
    return (
        "How many of the kept labels are wrong depends on how much likelier a wrong label is where "
        f"the fit is least sure than where it is surest: about {', '.join(parts)}."
    )
