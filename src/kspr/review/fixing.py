"""The queue of suspects: all rows, the most doubtful first, filtered and searched."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kspr.review.session import Session
from kspr.selectors.options import DOUBTING

__all__ = ["Filters", "Suspects"]

PAGE = 60
"""Rows that are sent at a time."""


@dataclass(frozen=True)
class Filters:
    """Which rows are shown. None means any."""

    given: int | None = None
    suggested: int | None = None
    doubt: float = 0.0
    """Least doubt, for runs that estimate it."""
    text: str = ""
    """Searched for in ids and texts, whatever the letters' case."""
    every: bool = False
    """All rows, instead of suspects."""
    answered: bool = False
    """Rows that the reviewer has answered here, instead of those that are left."""


class Suspects:
    """The rows of a review in the order of their doubt."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._order = np.argsort(-session.fitted.suspicion, kind="stable")
        self._ids: list[str] | None = None

    def page(self, filters: Filters, reviewer: str, start: int) -> dict[str, Any]:
        """Return how many rows the filters leave, and a part of them."""
        session = self._session
        keep, answers = self._mask(filters, reviewer)
        rows = self._order[keep[self._order]]
        contents = session.contents
        part = [
            {
                **session.brief(p),
                "content": contents.of(p, brief=True),
                "answer": session.coded(answers.get(p)),
            }
            for p in rows[start : start + PAGE].tolist()
        ]
        return {"total": len(rows), "start": start, "rows": part}

    def _mask(self, filters: Filters, reviewer: str) -> tuple[np.ndarray, dict[int, str]]:
        session = self._session
        fitted = session.fitted
        keep = np.ones(len(fitted), dtype=bool) if filters.every else ~session.kept
        # Rows of the draw are answered in Check, where they are not picked.
        keep[list(session.checks.positions)] = False
        answers = session.answered_by(reviewer, "fix")
        own = np.zeros(len(fitted), dtype=bool)
        own[list(answers)] = True
        # What was answered is shown also where it is no suspect.
        keep = own if filters.answered else keep & ~own
        if filters.given is not None:
            keep = keep & (session.given == filters.given)
        if filters.suggested is not None:
            keep = keep & (session.suggested == filters.suggested)
        if filters.doubt > 0 and fitted.control in DOUBTING:
            keep = keep & (fitted.statistic >= filters.doubt)
        if filters.text.strip():
            keep = keep & self._found(filters.text.strip().lower(), np.flatnonzero(keep))
        return keep, answers

    def _found(self, wanted: str, rows: np.ndarray) -> np.ndarray:
        """Return a mask of those of `rows` whose id or text holds `wanted`."""
        if self._ids is None:
            self._ids = [str(name).lower() for name in self._session.run.row_id.tolist()]
        ids, texts = self._ids, self._session.contents.searched_texts
        found = np.zeros(len(self._order), dtype=bool)
        hits = [p for p in rows.tolist() if wanted in ids[p] or (texts and wanted in texts[p])]
        found[hits] = True
        return found
