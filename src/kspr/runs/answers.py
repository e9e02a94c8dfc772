"""People's answers about the rows of a run: the draw and the answers beside it, and their files.

Answers stand beside a saved selection and are applied when it is loaded: the fit itself is never
changed. `checks.json` holds the draw and the answers of files; it is replaced as a whole. The
answers of the review page have a log, `review.sqlite`, that only grows. A file of answers is a CSV
file, filled in with any spreadsheet, or tasks of Label Studio.
"""

from __future__ import annotations

import csv
import io
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import numpy as np

from kspr._files import read_json, write_json
from kspr._text import from_spreadsheet_cell
from kspr.core.labels import encode_labels, places_in, same_label
from kspr.errors import InputError
from kspr.runs.review_log import CANNOT_TELL, NO_CLASS, Entry, Opinion, opinions, read_log
from kspr.selectors import Selection
from kspr.selectors.checked import Drawn, Guarantee
from kspr.selectors.options import DEFAULT_Q, RIGHT
from kspr.selectors.plan import Plan
from kspr.sources.readers.csv_tables import split_by
from kspr.sources.readers.file_checks import (
    check_file,
    explain_encoding,
    listed,
    no_such,
    shown,
)
from kspr.sources.readers.json_tables import open_tasks
from kspr.sources.records import all_distinct

if TYPE_CHECKING:
    from kspr.runs.rows import RunRows

__all__ = [
    "BESIDE",
    "CANNOT_TELL",
    "NO_CLASS",
    "Answers",
    "Checks",
    "apply_checks",
    "begin_checks",
    "planned",
    "read_answers",
    "read_checks",
    "write_checks",
]

BESIDE = "group"
"""In the column `drawn_from`: a row that is shown because one of its group was drawn."""
_TRUTH = "true_label"
_PLACES = ("row", "id")
_Entries = list[tuple[str, dict[str, str]]]
"""What names each answer in errors (``line 7``, ``task 7``), and its columns."""
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


@dataclass(frozen=True)
class Answers:
    """The answers in a file, by the positions of their rows in a run."""

    path: Path
    by_position: dict[int, str | None]
    """The true labels, as text; None where the file has none."""
    drawn_from: Literal["pool", "all"] | None
    """None where the file does not say."""
    beside: frozenset[int] = frozenset()
    """Positions of rows that were not drawn themselves, but are of the group of one that was."""

    @property
    def given(self) -> tuple[int, ...]:
        """The positions of the rows that have an answer."""
        return tuple(p for p, truth in self.by_position.items() if truth is not None)

    @property
    def sampled(self) -> tuple[int, ...]:
        """The positions of those among them that were drawn."""
        return tuple(p for p in self.given if p not in self.beside)


def read_answers(path: Path, rows: RunRows, label: np.ndarray) -> Answers:
    """Return the answers in `path`; raise `InputError` if they are not about `rows`.

    `label` has the given labels of these rows.

    A .json file holds tasks of Label Studio, every other one is a CSV file.
    """
    table = _from_tasks(path) if path.suffix.lower() == ".json" else _read(path)
    position = _positions(path, table, rows)
    # Ids or given labels that differ: the file was made for other data.
    held = {"id": rows.row_id[position].tolist(), "label": label[position].tolist()}
    for column, values in held.items():
        for (where, entry), value in zip(table, values, strict=True):
            if column in entry and not _same(entry[column], value):
                raise InputError(
                    f"{path}, {where}: the {column} is {shown(entry[column].strip())}, but the "
                    f"data has {str(value)!r} there. The file was changed, or is about other data."
                )
    known = encode_labels(label, "label").classes
    truth = [_answer(path, where, entry[_TRUTH], known) for where, entry in table]
    by_position = dict(zip(position.tolist(), truth, strict=True))
    beside = frozenset(
        p for p, (_, entry) in zip(by_position, table, strict=True) if _origin(entry) == BESIDE
    )
    return Answers(path, by_position, _drawn_from(path, table), beside)


def _from_tasks(path: Path) -> _Entries:
    """Return the answers in tasks of Label Studio, with the columns of a CSV file of answers."""
    table = []
    for task in open_tasks(path):
        name = next((name for name in ("row_id", "id") if name in task.data), None)
        if name is None:
            raise InputError(
                f"{path}, {task.where} has no 'row_id' in its data, by which its row would be "
                "found. Import tasks that `kspr export --to label-studio` wrote."
            )
        entry = {"id": str(task.data[name])}
        # Where people differ, or skipped the task, nobody can tell.
        entry[_TRUTH] = (task.choice or CANNOT_TELL) if task.answered else ""
        for column, held in (("label", "kspr_given_label"), ("drawn_from", "drawn_from")):
            if held in task.data:
                entry[column] = str(task.data[held])
        table.append((task.where, entry))
    return table


def _read(path: Path) -> _Entries:
    """Return the lines of the file with their numbers, once the needed columns are there."""
    check_file(path, "a CSV file of answers")
    try:
        # Excel begins with a byte-order mark.
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise explain_encoding(path, error) from error
    # Not the reader of tables: a message here must name the line in the file, as a person sees it.
    reader = csv.DictReader(
        io.StringIO(text, newline=""), delimiter=split_by(text.split("\n", 1)[0]), restval=""
    )
    table = []
    try:
        for line in reader:
            # What a spreadsheet would take for a formula was written with an apostrophe in front.
            cells = {k: from_spreadsheet_cell(v) for k, v in line.items() if isinstance(v, str)}
            # Spreadsheets leave lines of nothing but delimiters at the end.
            if any(cell.strip() for cell in cells.values()):
                table.append((f"line {reader.line_num}", cells))
    except csv.Error as error:
        raise InputError(f"{path} cannot be read as a CSV file: {error}") from error
    columns = list(reader.fieldnames or ())
    if _TRUTH not in columns:
        raise no_such(_TRUTH, columns, str(path))
    if not set(_PLACES) & set(columns):
        raise InputError(f"{path} has no column 'row' or 'id', only {listed(columns)}.")
    if not table:
        raise InputError(f"{path} has no rows.")
    return table


def _positions(path: Path, table: _Entries, rows: RunRows) -> np.ndarray:
    """Return where each line's row is, by its number or else by its name."""
    column = "row" if "row" in table[0][1] else "id"
    known = rows.row if column == "row" else rows.row_id
    if column == "id" and not all_distinct(known):
        raise InputError(
            f"The ids of the rows are not distinct, so that those in {path} could mean several. "
            "Name rows by their number, in a column 'row'."
        )
    asked = [entry[column].strip() for _, entry in table]
    # A spreadsheet may write 7.0 for row 7.
    asked = [value.removesuffix(".0") for value in asked] if column == "row" else asked
    # A few of very many.
    wanted, texts = set(asked), ((str(k), place) for place, k in enumerate(known.tolist()))
    place = {text: position for text, position in texts if text in wanted}
    seen: set[str] = set()
    for (where, entry), value in zip(table, asked, strict=True):
        if value not in place:
            raise InputError(
                f"{path}, {where}: there is no row with the {column} "
                f"{shown(entry[column].strip())}."
            )
        if value in seen:
            name = int(value) if column == "row" else value
            raise InputError(f"{path} has two answers for the {column} {name!r}; keep one.")
        seen.add(value)
    return np.array([place[value] for value in asked], dtype=np.int64)


def _answer(path: Path, where: str, text: str, classes: np.ndarray) -> str | None:
    """Return a true label; None where it is left empty."""
    text, known = text.strip(), [str(name) for name in classes.tolist()]
    if known == [RIGHT] and text.casefold() == "wrong":
        return NO_CLASS
    if not text or text in known or text in (NO_CLASS, CANNOT_TELL):
        return text or None
    place = int(places_in(classes, [text])[0])
    if place >= 0:
        return known[place]
    # A spreadsheet writes 3.0 for 3, also where the data has the text "3".
    if text.removesuffix(".0") in known:
        return text.removesuffix(".0")
    refusal = no_such(text, sorted(known), f"{path}, {where}: the data", "label")
    raise InputError(
        f"{refusal} Write {NO_CLASS} for a row that belongs to no class, {CANNOT_TELL} "
        "where you cannot tell."
    )


def _same(text: str, value: Any) -> bool:
    text = text.strip()
    return text in (str(value).strip(), f"{value}.0") or bool(same_label([text], [value])[0])


def _origin(entry: dict[str, str]) -> str:
    return entry.get("drawn_from", "").strip()


def _drawn_from(path: Path, table: _Entries) -> Literal["pool", "all"] | None:
    # Two draws in one file would be a random sample of neither.
    origins = {_origin(entry) for _, entry in table} - {BESIDE} or {""}
    if len(origins) > 1 or not origins <= {"", "pool", "all"}:
        raise InputError(
            f"{path}: the column 'drawn_from' must say 'pool' or 'all', the same in every line, "
            f"got {listed(sorted(origins))}."
        )
    return cast("Any", origins.pop()) if origins != {""} else None
