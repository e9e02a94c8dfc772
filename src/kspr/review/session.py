"""A review of one run: who has answered what, which row is next, and the queue of suspects."""

import threading
import time
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from kspr._text import shorten, visible
from kspr.errors import InputError
from kspr.review.page_data import Details, Progress, shown_name
from kspr.runs.checks import Checks, apply_checks, planned, read_checks
from kspr.runs.draws import set_draw
from kspr.runs.review_log import (
    CANNOT_TELL,
    FILED,
    NO_CLASS,
    Opinion,
    Queue,
    ReviewLog,
    standing_entries,
)
from kspr.runs.run import Run, load_run
from kspr.selectors import Selection
from kspr.selectors.plan import Plan
from kspr.sources.readers.file_checks import check_file

AHEAD = 6
"""Rows that are sent together, so that the next one has arrived before it is asked for."""
LONGEST_NAME = 60
"""Characters of a reviewer's name."""
PAGE = 60
"""Suspects that are sent at a time."""
_SEARCHED = 2_000
"""Characters of each text that are searched."""
_LONGEST_GUIDELINES = 100_000
"""Bytes of a file of guidelines."""
_BLOCK = 10
"""Of so many rows some are asked again of the same person, after as many others."""
_AGAIN = 2
"""Rows of a block that are asked again at most."""
_HELD = 600.0
"""Seconds for which rows of a shared draw, or of a plan, wait for whoever they were sent to."""
ONE_BY_ONE: tuple[Queue, ...] = ("check", "repeat", "plan")
"""Queues whose rows come one at a time, in an order that nobody chooses."""


@dataclass(frozen=True)
class Settings:
    """The settings of a review. None leaves a setting of the draw in the run as it is."""

    checks: int | None = None
    q: float | None = None
    guarantee: Any = None
    confidence: float | None = None
    seed: int | None = None
    new_draw: bool = False
    whole_groups: bool = False
    blind: bool = False
    reviewer: str | None = None
    source: Path | None = None
    share: bool = False
    """Whether each row of the draw is for one person, instead of for everybody."""
    guidelines: Path | None = None
    """A text file that is shown beside the rows."""
    drawn: Literal["pool", "all"] | None = None


def check_reviewer(name: Any) -> str:
    """Return a reviewer's name; raise `InputError` if it is none."""
    reviewer = name.strip() if isinstance(name, str) else ""
    if not 0 < len(reviewer) <= LONGEST_NAME or visible(reviewer) != reviewer or reviewer == FILED:
        raise InputError(
            f"A reviewer's name has 1 to {LONGEST_NAME} characters, got {shorten(name, 20)!r}."
        )
    return reviewer


def _read_text(path: Path) -> str:
    check_file(path, "a text file of guidelines")
    if path.stat().st_size > _LONGEST_GUIDELINES:
        raise InputError(
            f"{path} is larger than {_LONGEST_GUIDELINES // 1000} kB. Shorten the guidelines: they "
            "are shown beside every row."
        )
    return visible(path.read_text("utf-8-sig", errors="replace"), keep="\n\t")


class Session:
    """One run under review. Several threads may use it, and several processes the same run."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        if settings.reviewer is not None:
            check_reviewer(settings.reviewer)
        self.settings = settings
        self.guidelines = "" if settings.guidelines is None else _read_text(settings.guidelines)
        self.folder = folder
        self.run: Run = load_run(folder, settings.source, answers=False)
        self.fitted: Selection = self.run.selection
        asked = ("q", "guarantee", "confidence", "drawn", "seed", "new_draw", "whole_groups")
        how = {name: getattr(settings, name) for name in asked}
        set_draw(folder, n=settings.checks, run=self.run, **how)
        self.log = ReviewLog(folder, self.fitted.manifest.fingerprint)
        self.details = Details(self.run)
        self.names = [str(name) for name in self.fitted.classes.tolist()]
        self._codes = {name: code for code, name in enumerate(self.names)}
        self._lock = threading.Lock()
        self._checks: tuple[Any, Checks] | None = None
        self._cut: tuple[Checks, np.ndarray] | None = None
        self._plan: tuple[Any, Plan | None] | None = None
        self._held: dict[str, tuple[float, list[int]]] = {}

    def close(self) -> None:
        """Close the log, and wait for what runs in the background."""
        self.details.close()
        self.log.close()

    @property
    def checks(self) -> Checks:
        """The draw with all answers so far, also those that other processes have written."""
        with self._lock:
            entries = tuple(self.log.entries())
            drawn = (self.folder / "checks.json").stat().st_mtime_ns
            # The draw itself is read again only if somebody has changed it.
            if self._checks is None or self._checks[0] != drawn:
                draw = read_checks(self.folder, self.fitted)
                if draw is None:
                    raise InputError(f"{self.folder} has no draw any more. Start the review again.")
                self._checks = drawn, draw
            if len(self._checks[1].log) != len(entries):
                self._checks = drawn, replace(self._checks[1], log=entries)
            return self._checks[1]

    @cached_property
    def progress(self) -> Progress:
        """The answers, applied to the selection."""
        return Progress(self.fitted)

    @property
    def plan(self) -> Plan | None:
        """The plan of the run, once its draw is finished; None without one."""
        checks = self.checks
        key = checks.plan, tuple(map(checks.known.get, checks.positions))
        if self._plan is None or self._plan[0] != key:
            self._plan = key, planned(self.fitted, checks)
        return self._plan[1]

    @property
    def kept(self) -> np.ndarray:
        """A mask of the rows that are kept: by the answers once all checks are done, else without.

        Until then the threshold jumps with every answer, and with it the list of suspects.
        """
        checks = self.checks
        if checks.unanswered:
            return self.fitted.clean_mask
        # A pair is replaced as one: threads see either the old mask or the new one.
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

    def waiting(self, reviewer: str) -> list[tuple[Queue, int]]:
        """Return what a reviewer is still asked: rows of the draw in their order, a few twice.

        Then the rows of the plan, each of one person only.
        """
        return self._asked(reviewer)[0]

    def _asked(self, reviewer: str) -> tuple[list[tuple[Queue, int]], int]:
        """Return what a reviewer is still asked, and how many of the first no answer can change."""
        checks, said = self.checks, self.answered_by(reviewer)
        # Answers from a file are nobody's in particular: these rows are done.
        taken = checks.known.keys() | self._held_by_others(reviewer)
        done = {*said, *checks.answers, *(taken if self.settings.share else ())}
        left = [position for position in checks.asked if position not in done]
        order, repeated = [*said, *left], self.answered_by(reviewer, "repeat")
        blocks = [order[start : start + _BLOCK] for start in range(0, len(order), _BLOCK)]
        found: list[tuple[Queue, int]] = []
        settled = None
        for k, block in enumerate([*blocks, []]):
            found += [("check", position) for position in block if position not in said]
            # After the block that follows, so that nobody notices; those of the last at the end.
            if k and len(blocks) > 1:
                if settled is None and not all(position in said for position in blocks[k - 1]):
                    settled = len(found)
                again = self._again(blocks[k - 1], said, k)
                found += [("repeat", position) for position in again if position not in repeated]
        plan = self.plan
        if plan is not None:
            found += [("plan", p) for p in plan.rows.tolist() if p not in taken]
        self._held[reviewer] = time.monotonic(), [position for _, position in found[:AHEAD]]
        return found, len(found) if settled is None else settled

    def ahead(self, reviewer: str) -> tuple[list[tuple[Queue, int]], int]:
        """Return the next few rows of a reviewer, and how many there are in all.

        Which rows of the last ten are asked again depends on the answers to all of them. A row that
        another one may take the place of is not sent: its answer would be refused.
        """
        found, settled = self._asked(reviewer)
        return found[: min(AHEAD, settled)], len(found)

    def _again(self, block: list[int], said: dict[int, str], number: int) -> list[int]:
        """Return which rows of a block are asked again.

        Those whose label was refused: a wrong refusal costs more kept rows than all else.
        """
        given = self.details.given
        refused = [p for p in block if p in said and said[p] != self.names[given[p]]]
        pick = np.random.default_rng([self.checks.seed, number]).integers(len(block))
        return refused[:_AGAIN] or [block[pick]]

    def _held_by_others(self, reviewer: str) -> set[int]:
        """Return the rows that others are looking at."""
        since, held = time.monotonic() - _HELD, self._held.copy()
        others = (rows for who, (at, rows) in held.items() if who != reviewer and at > since)
        return {position for rows in others for position in rows}

    def answer(
        self, reviewer: str, queue: Queue, answers: dict[int, int | str], *, again: bool = False
    ) -> None:
        """Write answers down: a code of a class, `NO_CLASS` or `CANNOT_TELL` by position.

        `again` says that answers of Check are to be replaced, which nobody does by accident.
        """
        reviewer = check_reviewer(reviewer)
        said = {self._position(p): self._said(answer) for p, answer in answers.items()}
        if not said:
            raise InputError("There is no answer in the request.")
        self._check_queue(reviewer, queue, said, again)
        self.log.append(reviewer, queue, said)

    def undo(self, reviewer: str, queue: Queue) -> list[int]:
        """Take back what a reviewer did last in a queue; return the rows."""
        queues: tuple[Queue, ...] = ONE_BY_ONE if queue == "check" else (queue,)
        return self.log.undo(check_reviewer(reviewer), *queues)

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

    def _check_queue(self, reviewer: str, queue: Queue, said: dict[int, str], again: bool) -> None:
        """Raise if rows do not belong into a queue."""
        checks = self.checks
        if queue in ONE_BY_ONE:
            answered = self.answered_by(reviewer, queue).keys() & said.keys()
            if answered and not again:
                raise InputError(
                    "You have answered this row already, in another window: the answer given there "
                    "stands. Here is the next row."
                )
            # Passing over a row because it is hard would spoil the draw.
            first = next((p for asked, p in self.waiting(reviewer) if asked == queue), None)
            if not said.keys() - answered <= {first}:
                raise InputError("This is not your next row. Here it is.")
        elif queue == "fix":
            if any(p in set(checks.asked) for p in said):
                raise InputError("A row of the draw is answered in Check only.")
        elif any(p not in self.disputed(reviewer) for p in said):
            raise InputError("This row is not open, or you have not answered it yourself.")

    def disputed(self, reviewer: str) -> dict[int, Opinion]:
        """Return the rows that are to be settled, or were, by position.

        Only rows that `reviewer` has answered: nobody sees another's answer before. In a shared
        draw others are not asked about them, and may settle them.
        """
        share = self.settings.share
        return {
            position: opinion
            for position, opinion in self.checks.opinions.items()
            if (share or reviewer in opinion.answers)
            and (opinion.is_open or opinion.settled is not None)
        }

    def decided(self, reviewer: str) -> list[dict[str, Any]]:
        """Return the rows that a reviewer has answered, with what all answers come to."""
        known, decided = self.checks.known, {}
        for entry in standing_entries(self.log.entries()):
            own = entry.reviewer == reviewer and entry.queue != "repeat"
            if own and entry.position is not None:
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
        given, suggested = session.details.given, session.details.suggested
        given_fits = True if filters.given is None else given == filters.given
        suggested_fits = True if filters.suggested is None else suggested == filters.suggested
        rows = self._order[(keep & given_fits & suggested_fits)[self._order]]
        part = [
            {
                **session.details.brief(p),
                "content": session.details.content(p, brief=True),
                "answer": session.coded(answers.get(p)),
            }
            for p in rows[start : start + PAGE].tolist()
        ]
        # Of each label, the rows that it would leave with the other filters as they are.
        count = partial(np.bincount, minlength=len(session.names))
        counts = {
            "given": count(given[keep & suggested_fits]).tolist(),
            "suggested": count(suggested[keep & given_fits]).tolist(),
        }
        return {"total": len(rows), "rows": part, "counts": counts}

    def _mask(self, filters: Filters, reviewer: str) -> tuple[np.ndarray, dict[int, str]]:
        """Return the rows that the filters leave, but for their labels; and all answers here."""
        session = self._session
        fitted = session.fitted
        keep = np.ones(len(fitted), dtype=bool) if filters.every else ~session.kept
        if fitted.doubt_is_chance:
            # A large error rate keeps labels that are probably wrong: they are shown all the same.
            keep |= fitted.doubt > 0.5
        # Rows of the draw are answered in Check, where they are not picked.
        keep[list(session.checks.asked)] = False
        answers = session.answered_by(reviewer, "fix")
        answered = np.zeros(len(fitted), dtype=bool)
        answered[list(answers)] = True
        # What was answered is shown also where it is no suspect.
        keep = answered if filters.answered else keep & ~answered
        if filters.doubt > 0 and fitted.doubt_is_chance:
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
