"""The progress of checking: the level that holds so far, what it keeps, what more checks give."""

from dataclasses import asdict
from typing import Any

import numpy as np

from kspr._text import percent
from kspr.runs.answers import Checks, apply_checks
from kspr.runs.review_log import CANNOT_TELL
from kspr.runs.verify import agreements
from kspr.selectors import Selection
from kspr.selectors.estimates import MOST_CHECKS, checks_needed
from kspr.selectors.options import DOUBTING

__all__ = ["Progress"]

_LEVELS = np.round(np.geomspace(0.005, 0.5, 80), 4)
"""Levels of the slider."""
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

    def now(self, checks: Checks) -> dict[str, Any]:
        """Return what the page shows of `checks`, in words and numbers."""
        selection = apply_checks(self._fitted, checks, unfinished=True)
        if not checks.reached and self._fitted.q_value is not None:
            selection = selection.at(checks.q)
        done, total = len(checks.reached), len(checks.positions)
        known = checks.known
        n_kept = int(selection.clean_mask.sum())
        return {
            "done": done,
            "total": total,
            "q": checks.q,
            "guarantee": checks.guarantee,
            "kept": n_kept,
            "rows": len(selection),
            "n_wrong": _n_wrong(selection),
            "complete": done >= total,
            "promise": _promise(selection, checks),
            "level": _level(selection, checks),
            "expected": self._expected(selection, checks),
            "unsettled": sum(known[p] == CANNOT_TELL for p in checks.reached if p in known),
            "to_settle": sum(opinion.is_open for opinion in checks.opinions.values()),
            "picked": sum(p not in set(checks.positions) for p in checks.opinions),
            "levels": _levels(selection, checks.q),
            "agreement": [asdict(pair) for pair in agreements(checks.opinions.values())],
            "picture": {
                "curve": self._curve,
                "cut": n_kept / max(len(selection), 1),
                "checks": self._marks(selection),
            },
        }

    def _expected(self, selection: Selection, checks: Checks) -> str:
        """Return a forecast in a sentence; empty where none can be made.

        With all checks done and q reached there is nothing to forecast, but something to estimate.
        """
        if selection.control not in DOUBTING:
            return ""
        done, total = len(checks.reached), len(checks.positions)
        reached = done > 0 and bool((_unchecked_levels(selection) <= checks.q).any())
        if reached and done >= total:
            return _estimated(selection)
        asked = (checks.q, checks.guarantee, checks.confidence, checks.seed, total)
        key = (*asked, reached, done // _FORECAST_EVERY)
        if self._forecast is None or self._forecast[0] != key:
            self._forecast = (key, _forecast(selection, checks, reached))
        forecast = self._forecast[1]
        if reached and forecast is not None:
            share = percent(round(forecast, 2))
            return (
                f"All {total:,} checks can be expected to keep about {share} of the right labels."
            )
        if forecast is None:
            return f"More than {MOST_CHECKS:,} checks may be needed to reach this q."
        return f"About {int(forecast) - done:,} more checks reach q = {percent(checks.q)}."

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


def _n_wrong(selection: Selection) -> int:
    checked = selection.checked
    return 0 if checked is None else int((~checked.right[checked.counted]).sum())


def _promise(selection: Selection, checks: Checks) -> str:
    done, total = len(checks.reached), len(checks.positions)
    if not done:
        rests = selection.assumption or "nothing is promised before rows are checked."
        return f"No row is checked yet. What is kept rests on an assumption: {rests}"
    if checks.guarantee != "anytime" and done < total:
        return (
            f"Provisional: the promise is made for {total:,} checks, and holds when they are done."
        )
    return str(selection.assumption)


def _unchecked_levels(selection: Selection) -> np.ndarray:
    """Return the levels of the rows that nobody has checked."""
    assert selection.q_value is not None  # noqa: S101 - there are answers that count
    rest = np.ones(len(selection), dtype=bool)
    if selection.checked is not None:
        rest[selection.checked.rows] = False
    return np.asarray(selection.q_value[rest])


def _level(selection: Selection, checks: Checks) -> str:
    n, n_kept = len(selection), int(selection.clean_mask.sum())
    keeps = f"{n_kept:,} of {n:,} rows ({percent(n_kept / max(n, 1))})"
    if selection.checked is None or not selection.checked.calibrate:
        return f"Without checks, {keeps} are kept."
    level = _unchecked_levels(selection)
    if (level <= checks.q).any():
        return f"q = {percent(checks.q)} is reached, and keeps {keeps}."
    least = float(level.min(initial=np.inf))
    if not least < 1:
        return "No level is reached yet."
    would = int((level <= least).sum())
    return (
        f"q = {percent(checks.q)} is not reached yet. The smallest level that is reached is "
        f"{percent(least)}, which would keep {would:,} rows."
    )


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


def _forecast(selection: Selection, checks: Checks, reached: bool) -> float | None:
    """Return the share of right labels that the draw is expected to keep, where q is reached.

    Where it is not, the number of checks that is expected to be enough; None where none is.
    """
    done, total = len(checks.reached), len(checks.positions)
    if not reached:
        return checks_needed(selection, checks.q, checks.guarantee, checks.confidence, done)
    return selection.forecast(
        max(done, total), q=checks.q, guarantee=checks.guarantee, confidence=checks.confidence
    )


def _levels(selection: Selection, q: float) -> list[list[float]]:
    """Return levels, and how many rows each keeps."""
    if selection.q_value is None:
        return []
    ordered = np.sort(selection.q_value)
    levels = np.unique(np.append(_LEVELS, q))
    kept = np.searchsorted(ordered, levels, side="right")
    return [[float(level), int(count)] for level, count in zip(levels, kept, strict=True)]
