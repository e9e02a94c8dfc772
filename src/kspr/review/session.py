"""A review of one run: who has answered what, which row is next, and the queue of suspects."""

import threading
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from kspr._text import shorten, visible
from kspr.errors import InputError
from kspr.review.checking_progress import Progress
from kspr.review.row_details import Details, shown_name
from kspr.runs.answers import CANNOT_TELL, NO_CLASS, Checks, apply_checks, read_checks
from kspr.runs.draws import set_draw
from kspr.runs.review_log import FILED, Opinion, Queue, ReviewLog, standing_entries
from kspr.runs.run import Run, load_run
from kspr.selectors import Selection
from kspr.selectors.options import DOUBTING

__all__ = ["Filters", "Session", "Settings", "Suspects", "check_reviewer"]

LONGEST_NAME = 60
"""Characters of a reviewer's name."""
PAGE = 60
"""Suspects that are sent at a time."""
_SEARCHED = 2_000
"""Characters of each text that are searched."""


@dataclass(frozen=True)
class Settings:
    """The settings of a review. None leaves a setting of the draw in the run as it is."""

    checks: int | None = None
    q: float | None = None
    guarantee: Any = None
    confidence: float | None = None
    seed: int | None = None
    new_draw: bool = False
    blind: bool = False
    reviewer: str | None = None
    source: Path | None = None


def check_reviewer(name: Any) -> str:
    """Return a reviewer's name; raise `InputError` if it is none."""
    reviewer = name.strip() if isinstance(name, str) else ""
    if not 0 < len(reviewer) <= LONGEST_NAME or visible(reviewer) != reviewer or reviewer == FILED:
        raise InputError(
            f"A reviewer's name has 1 to {LONGEST_NAME} characters, got {shorten(name, 20)!r}."
        )
    return reviewer


class Session:
    """One run under review. Several threads may use it, and several processes the same run."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        if settings.reviewer is not None:
            check_reviewer(settings.reviewer)
        self.settings = settings
        self.folder = folder
        self.run: Run = load_run(folder, settings.source, answers=False)
        self.fitted: Selection = self.run.selection
        set_draw(
            folder,
            n=settings.checks,
            q=settings.q,
            guarantee=settings.guarantee,
            confidence=settings.confidence,
            seed=settings.seed,
            new_draw=settings.new_draw,
            fitted=self.fitted,
        )
        self.log = ReviewLog(folder, self.fitted.manifest.fingerprint)
        self.details = Details(self.run)
        self.names = [str(name) for name in self.fitted.classes.tolist()]
        self._codes = {name: code for code, name in enumerate(self.names)}
        self._lock = threading.Lock()
        self._checks: tuple[Any, Checks] | None = None
        self._cut: tuple[Checks, np.ndarray] | None = None

    def close(self) -> None:
        """Close the log, and wait for what runs in the background."""
        self.details.close()
        self.log.close()

    @property
    def checks(self) -> Checks:
        """The draw with all answers so far, also those that other processes have written."""
        with self._lock:
            entries = self.log.entries()
            drawn = (self.folder / "checks.json").stat().st_mtime_ns
            state = (drawn, len(entries))
            if self._checks is None or self._checks[0] != state:
                # The draw itself is read again only if somebody has changed it.
                same = self._checks is not None and self._checks[0][0] == drawn
                draw = self._checks[1] if same and self._checks else self._read()
                self._checks = (state, replace(draw, log=tuple(entries)))
            return self._checks[1]

    def _read(self) -> Checks:
        draw = read_checks(self.folder, self.fitted)
        if draw is None:
            raise InputError(f"{self.folder} has no draw any more. Start the review again.")
        return draw

    @cached_property
    def progress(self) -> Progress:
        """The answers, applied to the selection."""
        return Progress(self.fitted)

    @property
    def kept(self) -> np.ndarray:
        """A mask of the rows that are kept: by the answers once all checks are done, else without.

        Until then the cut jumps with every answer, and with it a list of the rows outside of it.
        """
        checks = self.checks
        if len(checks.reached) < len(checks.positions):
            return self.fitted.clean_mask
        # A pair is replaced as one: threads see either the old cut or the new one.
        if self._cut is None or self._cut[0] is not checks:
            self._cut = checks, apply_checks(self.fitted, checks).clean_mask
        return self._cut[1]

    @property
    def shown_names(self) -> list[str]:
        """The classes as they are shown."""
        return [shown_name(name) for name in self.names]

    def answered_by(self, reviewer: str, queue: Queue = "check") -> dict[int, str]:
        """Return the answers of a reviewer in a queue, by position, in their order."""
        return {
            int(entry.position or 0): str(entry.answer)
            for entry in standing_entries(self.log.entries())
            if (entry.reviewer, entry.queue) == (reviewer, queue)
        }

    def coded(self, answer: str | None) -> int | str | None:
        """Return an answer of the log as the page knows it: a code where it is a class."""
        if answer in self._codes:
            return self._codes[answer]
        # A file may name a class that the run does not have.
        return None if answer is None else shown_name(answer)

    def waiting(self, reviewer: str) -> list[int]:
        """Return the rows of the draw that a reviewer has not answered, in their order."""
        checks = self.checks
        # Answers from a file are nobody's in particular: these rows are done.
        done = {*self.answered_by(reviewer), *checks.filed}
        return [position for position in checks.positions if position not in done]

    def answer(self, reviewer: str, queue: Queue, answers: dict[int, int | str]) -> None:
        """Write answers down: a code of a class, `NO_CLASS` or `CANNOT_TELL` by position."""
        reviewer = check_reviewer(reviewer)
        said = {self._position(p): self._said(answer) for p, answer in answers.items()}
        if not said:
            raise InputError("There is no answer in the request.")
        self._check_queue(reviewer, queue, said)
        self.log.append(reviewer, queue, said)

    def undo(self, reviewer: str, queue: Queue) -> list[int]:
        """Take back what a reviewer did last in a queue; return the rows."""
        return self.log.undo(check_reviewer(reviewer), queue)

    def _position(self, position: Any) -> int:
        if type(position) is not int or not 0 <= position < len(self.fitted):
            raise InputError(f"There is no row {shorten(position, 20)!r}.")
        return position

    def _said(self, answer: Any) -> str:
        if answer in (NO_CLASS, CANNOT_TELL):
            return str(answer)
        if type(answer) is not int or not 0 <= answer < len(self.names):
            raise InputError(f"{shorten(answer, 20)!r} is no answer.")
        return self.names[answer]

    def _check_queue(self, reviewer: str, queue: Queue, said: dict[int, str]) -> None:
        """Raise if rows do not belong into a queue."""
        checks = self.checks
        if queue == "check":
            waiting, answered = self.waiting(reviewer), self.answered_by(reviewer)
            # Passing over a row because it is hard would spoil the draw.
            if any(p not in answered and [p] != waiting[:1] for p in said):
                raise InputError("This is not the next row of the draw. Load the page again.")
        elif queue == "fix":
            if any(p in set(checks.positions) for p in said):
                raise InputError("A row of the draw is answered in Check only.")
        elif any(p not in self.disputed(reviewer) for p in said):
            raise InputError("This row is not open, or you have not answered it yourself.")

    def disputed(self, reviewer: str) -> dict[int, Opinion]:
        """Return the rows that are to be settled, or were, by position.

        Only rows that `reviewer` has answered: nobody sees another's answer before.
        """
        return {
            position: opinion
            for position, opinion in self.checks.opinions.items()
            if reviewer in opinion.answers and (opinion.is_open or opinion.settled is not None)
        }

    def decided(self, reviewer: str) -> list[dict[str, Any]]:
        """Return the rows that a reviewer has answered, with what all answers come to."""
        known, decided = self.checks.known, {}
        for entry in standing_entries(self.log.entries()):
            if entry.reviewer == reviewer and entry.position is not None:
                decided[entry.position] = {
                    **self.details.brief(entry.position),
                    "answer": self.coded(entry.answer),
                    "outcome": self.coded(known.get(entry.position, entry.answer)),
                    "queue": entry.queue,
                    "time": entry.time,
                }
        return list(decided.values())


@dataclass(frozen=True)
class Filters:
    """The filters of suspects. None means any."""

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
        self._lock = threading.Lock()

    def page(self, filters: Filters, reviewer: str, start: int) -> dict[str, Any]:
        """Return how many rows the filters leave, and a part of them."""
        session = self._session
        keep, answers = self._mask(filters, reviewer)
        rows = self._order[keep[self._order]]
        part = [
            {
                **session.details.brief(p),
                "content": session.details.content(p, brief=True),
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
        answered = np.zeros(len(fitted), dtype=bool)
        answered[list(answers)] = True
        # What was answered is shown also where it is no suspect.
        keep = answered if filters.answered else keep & ~answered
        if filters.given is not None:
            keep = keep & (session.details.given == filters.given)
        if filters.suggested is not None:
            keep = keep & (session.details.suggested == filters.suggested)
        if filters.doubt > 0 and fitted.control in DOUBTING:
            keep = keep & (fitted.doubt >= filters.doubt)
        if filters.text.strip():
            keep = keep & self._search(filters.text.strip().lower(), np.flatnonzero(keep))
        return keep, answers

    def _search(self, wanted: str, rows: np.ndarray) -> np.ndarray:
        """Return a mask of those of `rows` whose id or text holds `wanted`."""
        # One thread reads the texts, and the others wait for it.
        with self._lock:
            words = self._words
        mask = np.zeros(len(self._order), dtype=bool)
        mask[[p for p in rows.tolist() if wanted in words[p]]] = True
        return mask

    @cached_property
    def _words(self) -> list[str]:
        """Id and beginning of the text of every row, in small letters."""
        ids, contents = self._session.run.row_id.tolist(), self._session.details.contents
        if contents.kind != "text":
            return [str(name).lower() for name in ids]
        return [f"{name}\n{contents.beginning(p, _SEARCHED)}".lower() for p, name in enumerate(ids)]
