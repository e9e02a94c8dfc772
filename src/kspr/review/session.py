"""A review of one run: who has answered what, which row is next, and what is shown of it."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from kspr._text import shorten, visible
from kspr.core.labels import codes_in
from kspr.errors import InputError
from kspr.review.contents import Contents
from kspr.review.neighbours import Neighbours
from kspr.review.standing import Standing
from kspr.runs.answers import CANNOT_TELL, NO_CLASS, Checks, apply_checks, read_checks
from kspr.runs.draws import set_draw
from kspr.runs.review_log import FILED, Opinion, Queue, ReviewLog, standing_entries
from kspr.runs.run import Run, load_run
from kspr.selectors import Selection
from kspr.selectors.options import DOUBTING

__all__ = ["Session", "Settings", "check_reviewer"]

LONGEST_NAME = 60
"""Characters of a reviewer's name."""
_LONGEST_LABEL = 160
_NEAREST = 3
"""Rows of each class that a row is compared with."""
_OTHERS = 30
"""Other classes that are listed by likelihood; the rest can be typed."""


@dataclass(frozen=True)
class Settings:
    """How a run is reviewed. What is None is as in the draw that is there."""

    checks: int | None = None
    q: float | None = None
    guarantee: Any = None
    confidence: float | None = None
    seed: int | None = None
    blind: bool = False
    reviewer: str | None = None
    source: Path | None = None


def check_reviewer(name: Any) -> str:
    """Return a reviewer's name; raise `InputError` if it is none."""
    found = name.strip() if isinstance(name, str) else ""
    if not 0 < len(found) <= LONGEST_NAME or visible(found) != found or found == FILED:
        raise InputError(
            f"A reviewer's name has 1 to {LONGEST_NAME} characters, got {shorten(name, 20)!r}."
        )
    return found


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
            fitted=self.fitted,
        )
        self.log = ReviewLog(folder, self.fitted.manifest.fingerprint)
        self.contents = Contents(self.run)
        self.names = [str(name) for name in self.fitted.classes.tolist()]
        self._codes = {name: code for code, name in enumerate(self.names)}
        self._lock = threading.Lock()
        self._checks: tuple[Any, Checks] | None = None
        self._cut: tuple[Checks, np.ndarray] | None = None
        # The source and the features are opened meanwhile: the page is there at once.
        self._background = ThreadPoolExecutor(1, thread_name_prefix="kspr-review")
        self._warm = self._background.submit(self._open)

    def close(self) -> None:
        """Close the log, and wait for what runs in the background."""
        self._background.shutdown(wait=True, cancel_futures=True)
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
                found = self._checks[1] if same and self._checks else self._read()
                self._checks = (state, replace(found, log=tuple(entries)))
            return self._checks[1]

    def _read(self) -> Checks:
        found = read_checks(self.folder, self.fitted)
        if found is None:
            raise InputError(f"{self.folder} has no draw any more. Start the review again.")
        return found

    @cached_property
    def standing(self) -> Standing:
        """What answers come to."""
        return Standing(self.fitted)

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

    @cached_property
    def given(self) -> np.ndarray:
        """The code of each row's given label."""
        return codes_in(self.fitted.classes, self.fitted.label, "label")

    @cached_property
    def suggested(self) -> np.ndarray:
        """The code of each row's suggested label."""
        return codes_in(self.fitted.classes, self.fitted.suggested_label, "suggested_label")

    @property
    def shown_names(self) -> list[str]:
        """The classes as they are shown."""
        return [shorten(name, _LONGEST_LABEL) for name in self.names]

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
        return None if answer is None else shorten(answer, _LONGEST_LABEL)

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
            waiting, own = self.waiting(reviewer), self.answered_by(reviewer)
            # Passing over a row because it is hard would spoil the draw.
            if any(p not in own and [p] != waiting[:1] for p in said):
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
        known, found = self.checks.known, {}
        for entry in standing_entries(self.log.entries()):
            if entry.reviewer == reviewer and entry.position is not None:
                found[entry.position] = {
                    **self.brief(entry.position),
                    "answer": self.coded(entry.answer),
                    "outcome": self.coded(known.get(entry.position, entry.answer)),
                    "queue": entry.queue,
                    "time": entry.time,
                }
        return list(found.values())

    def row(self, position: int, *, blind: bool = False) -> dict[str, Any]:
        """Return what is shown of a row; `blind` leaves out everything that tells its label."""
        content = self.contents.of(position)
        if blind:
            return {"position": position, "blind": True, "content": content}
        given, suggested = int(self.given[position]), int(self.suggested[position])
        similarity = self._similarity(position)
        order = self._likely(position, similarity)
        near = None
        if similarity is not None:
            shown = {given: "given", suggested: "suggested"}
            near = {who: self._near(similarity, code) for code, who in shown.items()}
        return {
            **self.brief(position),
            "content": content,
            "others": [code for code in order if code not in (given, suggested)][:_OTHERS],
            "near": near,
        }

    def brief(self, position: int) -> dict[str, Any]:
        """Return the labels of a row, and what it is called."""
        given, suggested = int(self.given[position]), int(self.suggested[position])
        has_doubt = self.fitted.control in DOUBTING
        return {
            "position": position,
            "id": shorten(self.run.row_id[position], _LONGEST_LABEL),
            "given": given,
            "suggested": suggested if suggested != given else None,
            "doubt": round(float(self.fitted.statistic[position]), 4) if has_doubt else None,
        }

    @cached_property
    def _neighbours(self) -> Neighbours | None:
        """Rows to compare with; None where the features are not at hand: none are computed."""
        try:
            features = self.run.features()
        except (InputError, OSError):
            return None
        if features is None or not hasattr(features, "shape"):
            return None
        return Neighbours(features, self.given, self.fitted.clean_mask)

    def _open(self) -> Neighbours | None:
        _ = self.contents.kind
        return self._neighbours

    def _similarity(self, position: int) -> np.ndarray | None:
        found = self._warm.result()
        return None if found is None else found.similarity(position)

    def _near(self, similarity: np.ndarray, code: int) -> list[dict[str, Any]]:
        found = self._warm.result()
        rows = [] if found is None else found.nearest(similarity, code, _NEAREST)
        return [{**self.brief(p), "content": self.contents.of(p, brief=True)} for p in rows]

    def _likely(self, position: int, similarity: np.ndarray | None) -> list[int]:
        """Return all classes, the likely ones first: by similar rows, else by the noise."""
        c, found = len(self.names), self._warm.result()
        score = np.zeros(c)
        if self.fitted.noise is not None:
            # How often a row with this label is of each class.
            score = self.fitted.noise.transition[:, self.given[position]].astype(float)
        if found is not None and similarity is not None:
            # Entries of a transition matrix are at most 1, less than a vote.
            score = score + 2 * found.votes(similarity, c)
        return [int(code) for code in np.argsort(-score, kind="stable")]
