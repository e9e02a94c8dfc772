"""The progress of checking: what the answers so far allow to keep, and what more would give."""

from collections import Counter
from dataclasses import asdict
from typing import Any

import numpy as np

from kspr._text import percent
from kspr.runs.answers import Checks, apply_checks
from kspr.runs.review_log import CANNOT_TELL, FILED
from kspr.runs.verify import agreements
from kspr.selectors import Selection
from kspr.selectors.estimates import MOST_CHECKS, checks_needed
from kspr.selectors.options import DOUBTING
from kspr.selectors.plan import Plan

__all__ = ["Progress"]

_LEVELS = np.round(np.geomspace(0.005, 0.5, 80), 4)
"""Error rates of the slider."""
_POINTS = 120
"""Points of the picture's curve."""
_FORECAST_EVERY = 10
"""Checks after which a forecast is made anew: it is rough, and takes longer than all the rest."""


class Progress:
    """The answers of a draw, applied to a selection that is fitted once."""

    def __init__(self, fitted: Selection) -> None:
        self._fitted = fitted
        order = np.argsort(fitted.suspicion, kind="stable")
        self._rank = np.empty(len(order))
        self._rank[order] = np.arange(len(order)) / max(len(order), 1)
        self._curve = _curve(fitted.suspicion[order])
        self._forecast: tuple[Any, float | None] | None = None

    def now(self, checks: Checks, plan: Plan | None = None) -> dict[str, Any]:
        """Return what the page shows of `checks` and the plan, in words and numbers.

        A threshold from a few answers jumps with each of them: until all are there, or the promise
        holds at every moment, the one without checks is shown.
        """
        selection, known = apply_checks(self._fitted, checks, unfinished=True), checks.known
        total, checked = len(checks.positions), selection.checked
        n_wrong = 0 if checked is None else int((~checked.right[checked.counted]).sum())
        done = total - len(checks.unanswered)
        reached = done > 0 and bool((_unchecked_levels(selection) <= checks.q).any())
        final = done > 0 and (done == total or (checks.guarantee == "anytime" and reached))
        shown = selection
        if not final:
            has_levels = self._fitted.q_value is not None
            shown = self._fitted.at(checks.q) if has_levels else self._fitted
        n_kept = int(shown.clean_mask.sum())
        so_far = f"{n_wrong:,} wrong so far." if done else "No row is checked yet."
        rows = [] if plan is None else plan.rows.tolist()
        n_labelled = sum(p in known for p in rows)
        asked = {*checks.positions, *rows}
        return {
            "done": done,
            "total": total,
            "people": _people(checks),
            "q": checks.q,
            "guarantee": checks.guarantee,
            "kept": n_kept,
            "rows": len(selection),
            "n_wrong": n_wrong,
            "complete": done == total,
            "final": final,
            "promise": _promise(selection, checks, final),
            "verdict": _verdict(selection, checks, reached) if final else so_far,
            "expected": self._expected(selection, checks, reached),
            "unsettled": sum(known[p] == CANNOT_TELL for p in checks.reached if p in known),
            "to_settle": sum(opinion.is_open for opinion in checks.opinions.values()),
            "picked": sum(p not in asked for p in checks.opinions),
            "plan": plan
            and {"done": n_labelled, "total": len(rows), "says": plan.progress(n_labelled)},
            "levels": _levels(selection, checks.q) if final else [],
            "most": _most(selection),
            "agreement": [asdict(pair) for pair in agreements(checks.opinions.values())],
            "picture": {
                "curve": self._curve,
                "cut": n_kept / max(len(selection), 1),
                "checks": self._marks(selection),
            },
        }

    def _expected(self, selection: Selection, checks: Checks, reached: bool) -> str:
        """Return a forecast in a sentence; empty where none can be made.

        With all checks done and q reached there is nothing to forecast, but something to estimate.
        """
        if selection.control not in DOUBTING:
            return ""
        done, total = len(checks.reached), len(checks.positions)
        if reached and not checks.unanswered:
            return _estimated(selection)
        asked = (checks.q, checks.guarantee, checks.confidence)
        key = (*asked, checks.seed, total, reached, done // _FORECAST_EVERY)
        if self._forecast is None or self._forecast[0] != key:
            # The share of right labels to keep; where q is not reached, the checks that it takes.
            self._forecast = (
                key,
                (
                    selection.forecast(
                        max(done, total),
                        q=checks.q,
                        guarantee=checks.guarantee,
                        confidence=checks.confidence,
                    )
                    if reached
                    else checks_needed(selection, *asked, done)
                ),
            )
        forecast = self._forecast[1]
        if reached and forecast is not None:
            share = percent(round(forecast, 2))
            return (
                f"All {total:,} checks can be expected to keep about {share} of the right labels."
            )
        if forecast is None:
            return f"More than {MOST_CHECKS:,} checks may be needed to reach this q."
        return f"About {int(forecast) - done:,} more checks may reach {percent(checks.q)}."

    def _marks(self, selection: Selection) -> list[list[float]]:
        """Return where the checked rows of the draw are in the order of doubt, and if right."""
        if selection.checked is None:
            return []
        counted = selection.checked.counted
        rank, right = self._rank[selection.checked.rows[counted]], selection.checked.right[counted]
        return [[round(float(x), 4), int(ok)] for x, ok in zip(rank, right, strict=True)]


def _curve(suspicion: np.ndarray) -> list[float]:
    """Return the doubt of rows at even distances in its order, from 0 to 1."""
    if not len(suspicion):
        return []
    at = np.linspace(0, len(suspicion) - 1, _POINTS).astype(np.int64)
    low, high = float(suspicion[0]), float(suspicion[-1])
    return [round(float(value), 4) for value in (suspicion[at] - low) / max(high - low, 1e-12)]


def _people(checks: Checks) -> list[tuple[str, int]]:
    """Return who has answered rows of the draw, and how many."""
    drawn = set(checks.positions)
    opinions = (opinion for p, opinion in checks.opinions.items() if p in drawn)
    counts = Counter(name for opinion in opinions for name in opinion.answers if name != FILED)
    counts[FILED] = len(drawn & checks.answers.keys())
    return sorted((name, n) for name, n in counts.items() if n)


def _verdict(selection: Selection, checks: Checks, reached: bool) -> str:
    """Return what the answers allow to keep."""
    n, n_kept = len(selection), int(selection.clean_mask.sum())
    if reached:
        done = "" if checks.unanswered else "Done. "
        return f"{done}You can keep {n_kept:,} of {n:,} labels at {percent(checks.q)}."
    level = _unchecked_levels(selection)
    least = float(level.min(initial=np.inf))
    missed = f"{percent(checks.q)} is not reached with {len(checks.positions):,} checks"
    if not least < 1:
        return f"{missed}, nor is any other error rate."
    would = int((level <= least).sum())
    return (
        f"{missed}. The smallest error rate that is reached is {percent(least)}: {would:,} labels."
    )


def _promise(selection: Selection, checks: Checks, final: bool) -> str:
    if not checks.reached:
        rests = selection.assumption or "nothing is promised before rows are checked."
        return f"Until rows are checked, what is kept rests on an assumption. {rests}"
    if not final:
        done = "q is reached" if checks.guarantee == "anytime" else "all are done"
        return f"The {len(checks.positions):,} checks set a new threshold when {done}."
    return (
        f"{selection.assumption} It counts every answer as right: if 5 % of the answers let a "
        f"wrong label pass, up to {percent(min(checks.q + 0.05, 1.0))} of the kept ones are wrong."
    )


def _unchecked_levels(selection: Selection) -> np.ndarray:
    """Return the levels of the rows that nobody has checked."""
    rest = np.ones(len(selection), dtype=bool)
    if selection.checked is None or selection.q_value is None:
        return np.empty(0)
    rest[selection.checked.rows] = False
    return np.asarray(selection.q_value[rest])


def _estimated(selection: Selection) -> str:
    """Return what the checks, together with the fit, say of the cut."""
    estimates = selection.estimates()
    recall, fsr = estimates.recall, estimates.fsr
    among = "" if estimates.drawn_from == "all" else " that could be kept"
    return (
        f"Of the right labels{among}, about {percent(recall.value)} are kept (95 %: "
        f"{percent(recall.low)} to {percent(recall.high)}). Of the kept labels, about "
        f"{percent(fsr.value)} are wrong (95 %: {percent(fsr.low)} to {percent(fsr.high)})."
    )


def _most(selection: Selection) -> int:
    """Return how many rows some level keeps: checks say nothing of rows outside of their pool."""
    level = selection.q_value
    return len(selection) if level is None else int(np.isfinite(level).sum())


def _levels(selection: Selection, q: float) -> list[list[float]]:
    """Return error rates, and how many rows each keeps: q, and where the number changes."""
    if selection.q_value is None:
        return []
    levels = np.unique(np.append(_LEVELS, q))
    kept = np.searchsorted(np.sort(selection.q_value), levels, side="right")
    changes = np.append(True, np.diff(kept) > 0)
    pairs = zip(levels[changes | (levels == q)], kept[changes | (levels == q)], strict=True)
    return [[float(level), int(count)] for level, count in pairs]
