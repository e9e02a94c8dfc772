"""True labels of single rows: written into a CSV file with any spreadsheet, or chosen in a tool."""

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from kspr._text import from_spreadsheet_cell
from kspr.core.coded import row_ranges
from kspr.core.labels import encode_labels, places_in, same_label
from kspr.errors import InputError
from kspr.selectors.checks import CANNOT_TELL, NO_CLASS
from kspr.selectors.controls.checked import Drawn
from kspr.sources.readers.csv_tables import split_by
from kspr.sources.readers.file_checks import (
    check_file,
    explain_encoding,
    listed,
    no_such,
    shown,
)
from kspr.sources.readers.json_tables import Task, open_tasks
from kspr.sources.records import all_distinct

__all__ = ["Answers", "Rows", "checked_rows", "read_answers"]

_TRUTH = "true_label"
_PLACES = ("row", "id")
_Entries = list[tuple[str, dict[str, str]]]
"""What names each answer in errors (``line 7``, ``task 7``), and its columns."""


@dataclass(frozen=True)
class Rows:
    """The rows that answers can be about: numbers in the source, ids, given labels."""

    row: np.ndarray
    row_id: Any
    """Texts: an array, or a column that is read like one."""
    label: Any
    """An array, or `Coded`."""


@dataclass(frozen=True)
class Answers:
    """The answers in a file. Positions are those in the arrays of `Rows`."""

    position: np.ndarray
    truth: np.ndarray
    """The true labels, as text."""
    unanswered: np.ndarray
    """Positions of the rows whose answer is empty."""
    drawn_from: Literal["pool", "all"] | None
    """None where the file does not say."""


def read_answers(path: Path, rows: Rows) -> Answers:
    """Return the answers in `path`; raise `InputError` if they are not about `rows`.

    A .json file holds tasks of Label Studio, every other one is a CSV file.
    """
    table = _from_tasks(path) if path.suffix.lower() == ".json" else _read(path)
    position = _positions(path, table, rows)
    _check_labels(path, table, rows, position)
    known = encode_labels(rows.label, "label").classes
    truth = [_answer(path, where, entry[_TRUTH], known) for where, entry in table]
    given = np.array([answer is not None for answer in truth], dtype=bool)
    return Answers(
        position=position[given],
        truth=np.array([answer for answer in truth if answer is not None], dtype=np.str_),
        unanswered=position[~given],
        drawn_from=_drawn_from(path, table),
    )


def checked_rows(path: Path, rows: Rows) -> tuple[dict[int, str], Drawn]:
    """Return the answers in `path` by position, and whether they may move a cut.

    They may if they were drawn at random from all rows, as the column `drawn_from` says. A draw
    from another run's pool is no random draw for this one.
    """
    answers = read_answers(path, rows)
    if not len(answers.position):
        raise InputError(f"{path} has no answers yet: all of its rows are still to be checked.")
    found = dict(zip(answers.position.tolist(), answers.truth.tolist(), strict=True))
    return found, "all" if answers.drawn_from == "all" else "chosen"


def _from_tasks(path: Path) -> _Entries:
    """Return the answers in tasks of Label Studio, with the columns of a CSV file of answers."""
    return [(task.where, _as_entry(task, path)) for task in open_tasks(path)]


def _as_entry(task: Task, path: Path) -> dict[str, str]:
    found = {name: task.data[name] for name in ("row_id", "id") if name in task.data}
    if not found:
        raise InputError(
            f"{path}, {task.where} has no 'row_id' in its data, by which its row would be found. "
            "Import tasks that `kspr export --to label-studio` wrote."
        )
    entry = {"id": str(next(iter(found.values())))}
    # Where people differ, or skipped the task, nobody can tell.
    entry[_TRUTH] = (task.choice or CANNOT_TELL) if task.answered else ""
    for column, name in (("label", "kspr_given_label"), ("drawn_from", "drawn_from")):
        if name in task.data:
            entry[column] = str(task.data[name])
    return entry


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
    try:
        # Spreadsheets leave lines of nothing but delimiters at the end.
        table = [
            (f"line {reader.line_num}", {name: _cell(value) for name, value in entry.items()})
            for entry in reader
            if any(_texts(entry.values()))
        ]
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


def _cell(value: Any) -> Any:
    # What a spreadsheet would take for a formula was written with an apostrophe in front.
    return from_spreadsheet_cell(value) if isinstance(value, str) else value


def _texts(values: Iterable[Any]) -> list[str]:
    return [value.strip() for value in values if isinstance(value, str)]


def _positions(path: Path, table: _Entries, rows: Rows) -> np.ndarray:
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
    place = _places(known, set(asked))
    for (where, entry), value in zip(table, asked, strict=True):
        if value not in place:
            raise InputError(
                f"{path}, {where}: there is no row with the {column} "
                f"{shown(entry[column].strip())}."
            )
    if len(set(asked)) < len(asked):
        twice = next(value for k, value in enumerate(asked) if value in asked[:k])
        name = int(twice) if column == "row" else twice
        raise InputError(f"{path} has two answers for the {column} {name!r}; keep one.")
    return np.array([place[value] for value in asked], dtype=np.int64)


def _places(known: Any, asked: set[str]) -> dict[str, int]:
    """Return where the rows are that are asked for: a few of very many."""
    found = {}
    for part in row_ranges(len(known)):
        for position, value in enumerate(known[part].tolist(), part.start):
            if str(value) in asked:
                found[str(value)] = position
    return found


def _check_labels(path: Path, table: _Entries, rows: Rows, position: np.ndarray) -> None:
    """Raise if ids or given labels differ: the file was made for other data."""
    held = {"id": rows.row_id[position].tolist(), "label": rows.label[position].tolist()}
    for column, values in held.items():
        for (where, entry), value in zip(table, values, strict=True):
            if column in entry and not _same(entry[column], value):
                raise InputError(
                    f"{path}, {where}: the {column} is {shown(entry[column].strip())}, but the "
                    f"data has {str(value)!r} there. The file was changed, or is about other data."
                )


def _answer(path: Path, where: str, text: str, classes: np.ndarray) -> str | None:
    """Return a true label; None where it is left empty."""
    text = (text or "").strip()
    known = [str(name) for name in classes.tolist()]
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


def _drawn_from(path: Path, table: _Entries) -> Literal["pool", "all"] | None:
    # Two draws in one file would be a random sample of neither.
    found = {entry.get("drawn_from", "").strip() for _, entry in table}
    if len(found) > 1 or not found <= {"", "pool", "all"}:
        raise InputError(
            f"{path}: the column 'drawn_from' must say 'pool' or 'all', the same in every line, "
            f"got {listed(sorted(found))}."
        )
    return cast("Any", found.pop()) if found != {""} else None
