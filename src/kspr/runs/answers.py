"""Files of people's answers about the rows of a run: CSV files, and tasks of Label Studio."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from kspr._text import from_spreadsheet_cell
from kspr.core.labels import encode_labels, places_in, same_label
from kspr.errors import InputError
from kspr.runs.review_log import CANNOT_TELL, NO_CLASS
from kspr.selectors.options import RIGHT
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

BESIDE = "group"
"""In the column `drawn_from`: a row that is shown because one of its group was drawn."""
_TRUTH = "true_label"
_PLACES = ("row", "id")
_Entries = list[tuple[str, dict[str, str]]]
"""What names each answer in errors (``line 7``, ``task 7``), and its columns."""


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
