"""Rows that a person checks on the page itself: what is shown of them, and their file of answers.

The page computes nothing from the answers. It writes them into the lines that are made here, so
that the file is the one that `kspr verify --checks` would have made, filled in.
"""

import hashlib
import json
import shlex
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from markupsafe import Markup

from kspr._text import from_spreadsheet_cell, spreadsheet_cell, visible
from kspr.core.labels import stored_codes
from kspr.errors import InputError
from kspr.report._cards import Contents
from kspr.report._suspects import as_script
from kspr.report._words import name
from kspr.runs.answers import CANNOT_TELL, NO_CLASS
from kspr.runs.draws import COLUMNS, ToCheck
from kspr.selectors.selection import Selection

__all__ = ["Checking", "checking"]

SIDE = 512
"""Longest side of a picture, in pixels: enough to judge it, and a hundred still fit into a mail."""
LENGTH = 4000
"""Longest text, in characters."""
_ID, _ANSWER = COLUMNS.index("id"), COLUMNS.index("true_label")


@dataclass(frozen=True)
class Checking:
    """The rows to check, for the template and for the script of the page."""

    n: int
    n_drawn: int
    """Rows that are to be checked; more than `n` where the page has no room for all."""
    data: Markup
    """The rows as JSON."""
    kind: str | None
    """``image``, ``text`` or None."""
    file: str
    """Name of the file of answers."""
    command: str
    """The command that reads it."""


def checking(
    selection: Selection, to_check: ToCheck | None, run: Path | None, contents: Contents
) -> Checking | None:
    """Return the rows to check, as many as `contents` has room for; None without any."""
    if to_check is None or run is None or not to_check.positions:
        return None
    shown: list[str] = []
    for position in to_check.positions:
        content = contents.of(position, SIDE, LENGTH)
        if content is not None and content.kind == "left out":
            break
        shown.append("" if content is None else content.coded)
    if not shown:
        raise InputError(
            "megabytes=0 leaves no room for the rows to check. Raise it, or pass checks=0."
        )
    lines = to_check.lines[: len(shown)]
    rows = np.array(to_check.positions[: len(shown)])
    given, suggested = (
        stored_codes(selection, column)[rows].astype(np.int64)
        for column in ("label", "suggested_label")
    )
    names = [name(label) for label in selection.classes.tolist()]
    file = f"{run.resolve().name}-answers.csv"
    data = {
        "key": _key(to_check, lines),
        "classes": names,
        "keys": _keys(names),
        "id": [visible(from_spreadsheet_cell(line[_ID])) for line in lines],
        "given": given.tolist(),
        # -1 where no other label fits better.
        "suggested": np.where(suggested == given, -1, suggested).tolist(),
        "kind": contents.kind,
        "content": shown,
        "columns": ",".join(COLUMNS),
        "before": [_csv(line[:_ANSWER]) for line in lines],
        "after": [_csv(line[_ANSWER + 1 :]) for line in lines],
        "answers": [_csv([spreadsheet_cell(label)]) for label in selection.classes.tolist()],
        "none": _csv([spreadsheet_cell(NO_CLASS)]),
        "unsure": _csv([spreadsheet_cell(CANNOT_TELL)]),
    }
    command = f"kspr verify {shlex.quote(str(run))} --answers {shlex.quote(file)}"
    return Checking(
        n=len(shown),
        n_drawn=len(to_check.positions),
        data=as_script(data),
        kind=contents.kind,
        file=visible(file),
        command=visible(command),
    )


def _key(to_check: ToCheck, lines: tuple[list[str], ...]) -> str:
    """Return the name under which a browser keeps the answers to exactly these rows."""
    draw = asdict(replace(to_check.checks, positions=(), answers=None, log=()))
    described = json.dumps([draw, lines], sort_keys=True)
    return f"kspr-checks-{hashlib.sha256(described.encode()).hexdigest()[:32]}"


def _keys(names: list[str]) -> list[str]:
    """Return the digit that stands for each class; empty where there is none.

    Where classes are digits themselves, any other numbering would mislead: each has its own. The
    digit 0 stands for none of the classes.
    """
    digits = "123456789"
    if set(names) & set(digits):
        return [label if label in digits else "" for label in names]
    return [digits[k] if k < len(digits) else "" for k in range(len(names))]


def _csv(cells: list[str]) -> str:
    """Return cells as a part of a line of CSV."""
    return ",".join('"' + cell.replace('"', '""') + '"' for cell in cells)
