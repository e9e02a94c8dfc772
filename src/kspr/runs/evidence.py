"""What the error rate of a run rests on, and what its answers lack to be a guarantee.

What a run says of itself is not enough: its answers are applied again when it is loaded, and its
draw is computed again here.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from kspr._text import percent
from kspr.core.coded import row_ranges, stored_of
from kspr.runs.draws import drawable
from kspr.runs.run import Run
from kspr.selectors import Selection
from kspr.selectors.checks import Checks, read_checks
from kspr.selectors.options import COMPARING

__all__ = ["Claim", "Evidence", "claim_of", "lack_of"]

Evidence = Literal["checked", "declared", "estimated"]
"""What a rate may rest on: rows drawn by `kspr verify` and checked; rows of which the user says
that they were drawn at random; or an estimate that needs an assumption on the noise."""


@dataclass(frozen=True)
class Claim:
    """The rate of a run, what it rests on, and a sentence on either."""

    evidence: Evidence | None
    bound: float | None
    sentence: str


def claim_of(run: Run, confidence: float) -> Claim:
    """Return the rate of a run; `confidence` is the least that a guarantee with one must have."""
    fitted = run.fitted
    checks, checked = read_checks(run.folder, fitted), run.selection.checked
    if checks is None or checked is None or not checked.calibrate:
        return _estimate(fitted, run.selection)
    lack = lack_of(run, confidence)
    if lack is not None:
        return Claim(None, None, lack)
    redrawn = _redrawn(fitted, checks)
    how = "drawn by kspr" if redrawn else "declared to be drawn at random"
    sure = "on average over such draws"
    if checks.guarantee != "mean":
        sure = f"with {checks.confidence:.0%} confidence"
    return Claim(
        "checked" if redrawn else "declared",
        checks.q,
        f"At most {percent(checks.q)} of the kept labels are wrong {sure}, by "
        f"{int(checked.counted.sum()):,} checked rows, {how}.",
    )


def lack_of(run: Run, confidence: float = 0.0) -> str | None:
    """Return what the answers of a run lack to be a guarantee; None if nothing."""
    fitted = run.fitted
    checks, checked = read_checks(run.folder, fitted), run.selection.checked
    # Answers inside the selection, not beside it, have no draw that could be computed again.
    if fitted.checked is not None or checks is None or checked is None or not checked.calibrate:
        return "No rows that `kspr verify` drew at random are checked."
    empty = len(checks.unanswered)
    # Whoever stops where the answers look good has chosen them; only `anytime` allows for it.
    if empty and checks.guarantee != "anytime":
        return (
            f"{empty:,} of the {len(checks.positions):,} rows that were drawn have no answer. "
            "Answer them, with a question mark where nobody can tell."
        )
    if checks.guarantee != "mean" and checks.confidence < confidence:
        return (
            f"The checked rows were drawn for a confidence of {checks.confidence:g}, and "
            f"{confidence:g} is asked for (--confidence)."
        )
    return None


def _redrawn(fitted: Selection, checks: Checks) -> bool:
    """Return whether these are the first rows of the draw, as `kspr verify` makes it."""
    first = drawable(fitted, checks)[: len(checks.positions)]
    return set(first.tolist()) == set(checks.positions)


def _estimate(fitted: Selection, selection: Selection) -> Claim:
    """Return the rate that rests on an assumption, if the selection has one."""
    if fitted.checked is not None:
        # Its levels come from answers that cannot be counted again.
        return Claim(None, None, "The answers in it were not given to `kspr verify`.")
    if selection.manifest.seen_labels:
        return Claim(None, None, "Its network has seen the labels, and no rows are checked.")
    levels = stored_of(selection, "q_value")
    if levels is None or selection.control is None or selection.control in COMPARING:
        method = selection.manifest.method if selection.control is None else selection.control
        return Claim(None, None, f"No rows are checked, and {method!r} holds no error rate.")
    # A fallback keeps rows that no level reaches: their q-value is infinite.
    kept = selection.clean_mask
    largest = (np.max(levels[part][kept[part]], initial=0.0) for part in row_ranges(len(kept)))
    bound = float(max(largest, default=0.0))
    return Claim(
        "estimated",
        bound,
        f"An estimated {percent(bound)} of the kept labels are wrong, if this is so: "
        f"{selection.assumption} No rows are checked.",
    )
