"""The draw of a run and people's answers about its rows, which stand beside a selection.

They are applied when it is loaded: the fit itself is never changed. `checks.json` holds the draw
and the answers of files; it is replaced as a whole. The answers of the review page have a log,
`review.sqlite`, that only grows.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from kspr._files import read_json, write_json
from kspr.errors import InputError
from kspr.runs.review_log import CANNOT_TELL, Entry, Opinion, opinions, read_log
from kspr.selectors import Selection
from kspr.selectors.checked import Drawn, Guarantee
from kspr.selectors.options import DEFAULT_Q
from kspr.selectors.plan import Plan

_FILE = "checks.json"


@dataclass(frozen=True)
class Checks:
    """The rows that were drawn from a selection, in their order, and the answers so far."""

    drawn: Drawn
    guarantee: Guarantee
    confidence: float
    q: float
    seed: int
    fingerprint: str
    """Of the data that the selection was made from."""
    positions: tuple[int, ...] = ()
    """Rows that were drawn at random, as numbers in the selection, in the order of the draw."""
    answers: dict[int, str] = field(default_factory=dict)
    """True labels of CSV files by position, as text; also of rows that were not drawn: these were
    chosen."""
    files: dict[int, str] = field(default_factory=dict)
    """The file that each of these answers was read from last, by position."""
    settled: int = 0
    """Number of drawn rows that all had an answer when more were drawn."""
    whole: tuple[int, ...] | None = None
    """The drawn rows in their order, the other rows of its group behind each; None where rows are
    drawn without their groups."""
    plan: tuple[float, float] | None = None
    """Largest share of wrong labels in the finished data set, and its confidence, if people label
    for that (`kspr plan`)."""
    log: tuple[Entry, ...] = ()
    """The answers of the review page, which have a file of their own."""

    @cached_property
    def opinions(self) -> dict[int, Opinion]:
        """What reviewers said, by position."""
        return opinions(self.log, self.positions, self.answers)

    @cached_property
    def known(self) -> dict[int, str]:
        """True labels by position, of files and of the review page."""
        return {**self.answers, **{p: opinion.resolved for p, opinion in self.opinions.items()}}

    def with_answers(self, answers: dict[int, str | None], path: Path) -> Checks:
        """Return the checks with the answers of the file `path`; a later one replaces an earlier.

        None withdraws an answer that was read from this file, and leaves those of other files: of
        two people who share a draw, each has a file with gaps.
        """
        name, filed, files = str(path.resolve()), dict(self.answers), dict(self.files)
        for position, truth in answers.items():
            if truth is not None:
                filed[position], files[position] = truth, name
            elif files.get(position) == name:
                filed.pop(position, None)
        return replace(self, answers=filed, files=files)

    def with_answers_of(self, before: Checks | None) -> Checks:
        """Return the checks with the answers of an earlier draw of the same rows."""
        if before is None:
            return self
        return replace(self, answers=before.answers, files=before.files, log=before.log)

    @property
    def reached(self) -> tuple[int, ...]:
        """The drawn rows up to the last one that has an answer."""
        known = self.known
        last = max((k for k, p in enumerate(self.positions) if p in known), default=-1)
        return self.positions[: last + 1]

    @property
    def unanswered(self) -> tuple[int, ...]:
        """The drawn rows without an answer, in the order of the draw."""
        known = self.known
        return tuple(position for position in self.positions if position not in known)

    @property
    def asked(self) -> tuple[int, ...]:
        """The rows that people are asked about, in this order: drawn ones, and their groups."""
        return self.positions if self.whole is None else self.whole

    @property
    def n_left_empty(self) -> int:
        """Drawn rows without an answer that stand before the last answer."""
        return len(set(self.unanswered).intersection(self.reached))

    @property
    def effective(self) -> tuple[int, ...]:
        """The drawn rows whose answers move the threshold: all, once each of them has an answer.

        Whoever stops where the answers look good has chosen them; only `anytime` allows for it.
        Rows that were drawn later leave the answers of a finished draw as they are.
        """
        if self.guarantee == "anytime":
            return self.reached
        known = self.known
        for n in (len(self.positions), self.settled):
            if all(position in known for position in self.positions[:n]):
                return self.positions[:n]
        return ()

    @property
    def progress(self) -> str:
        """How many checks are done, in a sentence; empty if nothing is drawn."""
        total = len(self.positions)
        if not total:
            return ""
        done, moving = total - len(self.unanswered), len(self.effective)
        said = f"{done:,} of {total:,} checks are done"
        if moving == total or self.guarantee == "anytime":
            return f"{said}."
        rest = f" those after the first {moving:,}" if moving else ""
        return f"{said};{rest or ' they'} move the threshold once all of them are."


def begin_checks(selection: Selection, drawn: Drawn, **given: Any) -> Checks:
    """Return checks without answers; what is not `given` is usual, or as the selection was made."""
    asked = selection.manifest.parameters.get("q")
    q = asked if isinstance(asked, float) else DEFAULT_Q
    how = {"guarantee": "mean", "confidence": 0.95, "q": q, "seed": 0, **given}
    rates = {name: float(how[name]) for name in ("confidence", "q")}
    return Checks(drawn=drawn, fingerprint=selection.manifest.fingerprint, **{**how, **rates})


def apply_checks(
    selection: Selection, checks: Checks | None, *, unfinished: bool = False
) -> Selection:
    """Return the selection with the answers.

    A draw moves the threshold once all of it is answered; before that, answers decide on their own
    rows only. With `unfinished`, the answers so far move it: to show where they would lead.
    """
    if checks is None or not checks.known:
        return selection
    known, names = checks.known, [str(name) for name in selection.classes.tolist()]

    def truth(position: int) -> Any:
        # A row that was passed over may have been passed over because it is hard.
        answer = known.get(position, CANNOT_TELL)
        return answer if answer in names or answer != CANNOT_TELL else None

    drawn = checks.reached if unfinished else checks.effective
    if drawn:
        selection = selection.with_checks(
            drawn,
            list(map(truth, drawn)),
            q=checks.q,
            guarantee=checks.guarantee,
            confidence=checks.confidence,
            drawn=checks.drawn,
            seed=checks.seed,
        )
    chosen = sorted(set(known).difference(drawn))
    if chosen:
        selection = selection.with_checks(chosen, list(map(truth, chosen)), drawn="chosen")
    return selection


def planned(fitted: Selection, checks: Checks | None) -> Plan | None:
    """Return the plan of a run, with the rows that are labelled by now among its rows.

    None without one, and while the draw that it follows from is not finished.
    """
    if checks is None or checks.plan is None or checks.unanswered:
        return None
    drawn = set(checks.positions)
    answers = {p: truth for p, truth in checks.answers.items() if p in drawn}
    log = tuple(
        entry for entry in checks.log if entry.undoes is not None or entry.position in drawn
    )
    return apply_checks(fitted, replace(checks, answers=answers, log=log)).plan(*checks.plan)


def read_checks(folder: Path, selection: Selection) -> Checks | None:
    """Return the checks beside a selection; None without any, or if they are about other data."""
    fingerprint = selection.manifest.fingerprint
    log = read_log(folder, fingerprint)
    if any(entry.position is not None and entry.position >= len(selection) for entry in log):
        raise InputError(f"{folder} has answers about rows that it does not have. Copy it again.")
    file = folder / _FILE
    if not file.is_file():
        if not log:
            return None
        # The draw is lost, so that it is not known which of the rows were drawn at random.
        return replace(begin_checks(selection, "chosen"), log=log)
    about = read_json(file)
    try:
        plan = about.get("plan")
        by_row = {
            name: {int(row): text for row, text in (about.get(name) or {}).items()}
            for name in ("answers", "files")
        }
        whole = about.get("whole")
        lists = {"positions": tuple(about["positions"]), "plan": plan and tuple(plan), "log": ()}
        lists["whole"] = None if whole is None else tuple(whole)
        checks = Checks(**{**about, **lists, **by_row})
        known = checks.answers
        sound = (
            checks.drawn in get_args(Drawn)
            and checks.guarantee in get_args(Guarantee)
            and all(type(p) is int and 0 <= p < len(selection) for p in (*checks.asked, *known))
            and set(checks.positions) <= set(checks.asked)
            and all(isinstance(answer, str) for answer in known.values())
            and all(
                type(value) is float and 0 < value < 1
                for value in (checks.q, checks.confidence, *(checks.plan or ()))
            )
            and len(checks.plan or (0, 0)) == 2
            and type(checks.seed) is int
            and type(checks.settled) is int
            and 0 <= checks.settled <= len(checks.positions)
        )
    except (TypeError, KeyError, ValueError, AttributeError):
        sound = False
    if not sound:
        raise InputError(f"{file} cannot be read: it is cut short or damaged. Remove it.")
    return replace(checks, log=log) if checks.fingerprint == fingerprint else None


def write_checks(folder: Path, checks: Checks) -> None:
    """Write the draw, and the answers of CSV files, beside a selection."""
    # Answers of the review page are in their own file already.
    about = asdict(replace(checks, log=()))
    del about["log"]
    write_json(folder / _FILE, about)
