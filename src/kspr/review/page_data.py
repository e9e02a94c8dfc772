"""What the review page shows: rows with labels and content, and the progress of checking."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from kspr._text import percent, shorten, visible
from kspr.errors import InputError, UnreadableItemError
from kspr.report.contents import Contents
from kspr.runs.checks import Checks, apply_checks
from kspr.runs.review_log import CANNOT_TELL, FILED
from kspr.runs.run import Run
from kspr.runs.verify import agreements
from kspr.selectors import Selection
from kspr.selectors.estimates import MOST_CHECKS, checks_needed
from kspr.selectors.plan import Plan

_LONGEST_LABEL = 160
_LONGEST_TEXT = 20_000
"""Characters of a text that are shown."""
_BRIEF_TEXT = 1_200
"""The same, of a text that another is compared with."""
_MOST_CELLS = 24
_LONGEST_CELL = 300
_NEAREST = 3
"""Rows of each class that a row is compared with."""
_OTHERS = 30
"""Other classes that are listed by likelihood; the rest can be typed."""
_REFERENCE = 20_000
"""Rows that are searched at most. More make the picture little better, and the page slower."""
_FEWEST = 20
"""Rows of each class among these, as far as it has so many."""
_VOTES = 50
"""Nearest rows that say which classes are likely."""
_BLOCK = 4096


def shown_name(name: object) -> str:
    """Return a label or an id as it is shown: in one line, not too long."""
    return shorten(name, _LONGEST_LABEL)


class Details:
    """Labels, contents and neighbours of a run's rows. Several threads may ask at once.

    Only rows that are in the source as they were are shown, and only files inside of it.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._fitted = run.fitted
        self.given = run.fitted.label_code
        """The code of each row's given label."""
        self.suggested = run.fitted.suggested_code
        """The code of each row's suggested label."""
        # The source and the features are opened meanwhile: the page does not wait for them.
        self._background = ThreadPoolExecutor(1, thread_name_prefix="kspr-review")
        self._contents = self._background.submit(self._open_contents)
        self._cells = self._background.submit(self._open_cells)
        self._neighbours = self._background.submit(self._open_neighbours)

    def close(self) -> None:
        """Wait for what runs in the background."""
        self._background.shutdown(wait=True, cancel_futures=True)

    @property
    def contents(self) -> Contents:
        """The images or texts of the rows."""
        return self._contents.result()

    def row(self, position: int, *, blind: bool = False) -> dict[str, Any]:
        """Return what is shown of a row; `blind` leaves out everything that tells its label."""
        content = self.content(position)
        if blind:
            return {"position": position, "blind": True, "content": content}
        given, suggested = int(self.given[position]), int(self.suggested[position])
        neighbours, near = self._neighbours.result(), None
        # How often a row with this label is of each class.
        noise = self._fitted.noise
        score = np.zeros(len(self._fitted.classes))
        if noise is not None:
            score = noise.transition[:, given].astype(float)
        if neighbours is not None:
            similarity = neighbours.similarity(position)
            # Entries of a transition matrix are at most 1, less than a vote.
            score = score + 2 * neighbours.votes(similarity, len(score))
            near = {
                who: [
                    {**self.brief(p), "content": self.content(p, brief=True)}
                    for p in neighbours.nearest(similarity, code, _NEAREST)
                ]
                for code, who in {given: "given", suggested: "suggested"}.items()
            }
        order = np.argsort(-score, kind="stable").tolist()
        return {
            **self.brief(position),
            "content": content,
            "others": [code for code in order if code not in (given, suggested)][:_OTHERS],
            "near": near,
        }

    def brief(self, position: int) -> dict[str, Any]:
        """Return the labels of a row, and what it is called."""
        given, suggested = int(self.given[position]), int(self.suggested[position])
        has_doubt = self._fitted.doubt_is_chance
        return {
            "position": position,
            "id": shown_name(self._run.row_id[position]),
            "given": given,
            "suggested": suggested if suggested != given else None,
            "doubt": round(float(self._fitted.doubt[position]), 4) if has_doubt else None,
        }

    def content(self, position: int, *, brief: bool = False) -> dict[str, Any]:
        """Return a row's content; an image or sound is only named, and fetched from its address."""
        contents = self.contents
        try:
            if contents.kind in ("image", "sound"):
                contents.check_place(position)
                return {"kind": contents.kind}
            if contents.kind == "text":
                text = contents.text(position, _BRIEF_TEXT if brief else _LONGEST_TEXT)
                return {"kind": "text", "text": text}
            return {"kind": "table", "cells": self._cells_of(position)}
        except (InputError, OSError):
            return {"kind": "missing"}

    def _cells_of(self, position: int) -> list[list[str]]:
        places, columns = self._cells.result()
        place = int(places[position])
        if place < 0:
            raise UnreadableItemError(f"Row {position} has changed.")
        return [[visible(name), _cell(cells[place])] for name, cells in columns.items()]

    def _open_contents(self) -> Contents:
        source = Path(self._run.origin.source).resolve()
        inside = source if source.is_dir() else source.parent
        return Contents(self._run.items(), inside=inside)

    def _open_cells(self) -> tuple[np.ndarray, dict[str, Any]]:
        """Return the places of the rows in a table, and the columns that are shown, by name.

        Neither labels are among them nor anything that tells them.
        """
        if self.contents.kind is not None:
            return np.empty(0, dtype=np.int64), {}
        table = self._run.table()
        if table is None:
            features, places = self._run.records().features, self._run.joined.places()
            count = 0 if features is None else min(_MOST_CELLS, features.shape[1])
            return places, {f"feature {k}": features[:, k] for k in range(count)}
        shown = self._run.shown_fields()[:_MOST_CELLS]
        return self._run.table_rows(), {field.name: table.cells(field) for field in shown}

    def _open_neighbours(self) -> "Neighbours | None":
        """Return rows to compare with; None where features are not at hand: none are computed."""
        try:
            features = self._run.features()
        except (InputError, OSError):
            return None
        if features is None or not hasattr(features, "shape"):
            return None
        return Neighbours(features, self.given, self._fitted.clean_mask)


def _cell(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)[: _LONGEST_CELL + 1]
    return visible(text if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]}…")


class Neighbours:
    """A random part of the kept rows of each class, in memory, to be searched one row at a time."""

    def __init__(self, features: Any, code: np.ndarray, kept: np.ndarray) -> None:
        self._features = features
        self._rows = _sample(code, kept)
        self._code = code[self._rows]
        rows = np.empty((len(self._rows), features.shape[1]), dtype=np.float32)
        for start in range(0, len(self._rows), _BLOCK):
            part = self._rows[start : start + _BLOCK]
            rows[start : start + len(part)] = features[part]
        self._centre = rows.mean(axis=0) if len(rows) else 0.0
        self._unit = _unit(rows - self._centre)

    def similarity(self, position: int) -> np.ndarray:
        """Return how similar each row of the reference is to a row: the cosine, -2 for itself."""
        row = np.asarray(self._features[position], dtype=np.float32) - self._centre
        similarity = np.asarray(self._unit @ _unit(row[None])[0])
        similarity[self._rows == position] = -2.0
        return similarity

    def nearest(self, similarity: np.ndarray, code: int, count: int) -> list[int]:
        """Return the rows of a class that are most similar, the nearest first."""
        inside = np.flatnonzero(self._code == code)
        inside = inside[similarity[inside] > -2.0]
        best = inside[np.argsort(-similarity[inside], kind="stable")[:count]]
        return [int(row) for row in self._rows[best]]

    def votes(self, similarity: np.ndarray, n_classes: int) -> np.ndarray:
        """Return how many of the nearest rows have each class."""
        count = min(_VOTES, len(similarity))
        near = np.argpartition(-similarity, count - 1)[:count] if count else np.empty(0, int)
        return np.bincount(self._code[near], minlength=n_classes)


def _sample(code: np.ndarray, kept: np.ndarray) -> np.ndarray:
    rng = np.random.default_rng(0)
    order = rng.permutation(np.flatnonzero(kept))
    # Class by class, so that a rare one is not missed.
    order = order[np.argsort(code[order], kind="stable")]
    classes, first, size = np.unique(code[order], return_index=True, return_counts=True)
    most = max(_FEWEST, _REFERENCE // max(len(classes), 1))
    parts = [order[a : a + min(n, most)] for a, n in zip(first, size, strict=True)]
    return np.sort(np.concatenate(parts)) if parts else order


def _unit(rows: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(length, 1e-12))


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
        asked = {*checks.asked, *rows}
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
        if not selection.doubt_is_chance:
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
    """Return what the checks, together with the fit, say of the threshold."""
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
