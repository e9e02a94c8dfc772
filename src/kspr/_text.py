"""Text for people: tables, rates, and names that act neither on a terminal nor in a spreadsheet."""

import csv
import json
import math
import re
import shutil
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TextIO

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet may take a cell that begins so for a formula, and run it."""

_JOINERS = "\u200c\u200d"
"""Characters without a width that scripts and emoji are written with; they move nothing."""


def visible(text: object, keep: str = "") -> str:
    r"""Return a text in which control characters are written out, except those in `keep`.

    Labels, ids and file names come from the data. ESC would change the colours of a terminal, a
    newline would fake a row of a table, and a bidirectional mark would turn the rest of the line
    around.

    >>> print(visible("otter\x1b[31m\n\u202e"))
    otter\u001b[31m\n\u202e
    """
    text = str(text)
    # All that `_acts` finds is not printable; almost every text is.
    if text.isprintable():
        return text
    return "".join(
        # As JSON writes it, so that `print_json` can use this too.
        json.dumps(letter)[1:-1] if letter not in keep and _acts(letter) else letter
        for letter in text
    )


def _acts(letter: str) -> bool:
    """Tell whether a character does something else than being shown."""
    # Control, format, surrogate, and separators of lines and of paragraphs.
    return unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp") and letter not in _JOINERS


def shorten(text: object, length: int) -> str:
    """Return a text in one line with at most `length` characters.

    Names often differ at their end only, so characters are left out in the middle.

    >>> shorten("category number 17", 8)
    'cate… 17'
    """
    line = visible(" ".join(str(text).split()))
    tail = (length - 1) // 2
    return line if len(line) <= length else f"{line[: length - 1 - tail]}…{line[-tail:]}"


def percent(value: float | None) -> str:
    """Return a rate in percent, to three digits, at most two decimals; a dash for None or nan.

    >>> percent(0.1234567), percent(0.00001)
    ('12.3 %', '0.001 %')
    """
    if value is None or not math.isfinite(value):
        return "–"  # noqa: RUF001 - a dash is meant
    # A tiny rate would be rounded to 0 %; one digit of it is shown instead.
    shown = round(float(f"{100 * value:.3g}"), 2) or float(f"{100 * value:.1g}")
    return f"{shown:g} %"


def unbroken(text: str, space: str = "\u202f") -> str:
    """Return a text in which no line ends between a number and its percent sign.

    >>> unbroken("5 % or 9 to 15 %", "~")
    '5~% or 9 to 15~%'
    """
    return re.sub(r"(?<=\d) (?=%)", space, text)


def wrapped(text: str) -> str:
    """Return a text whose lines end between words, at most 100 characters long.

    On a narrower terminal they are as long as it is wide: it would cut words in two.
    """
    width = min(100, shutil.get_terminal_size((100, 24)).columns)
    lines = (
        textwrap.fill(unbroken(line), width, break_long_words=False, break_on_hyphens=False)
        for line in text.splitlines()
    )
    return "\n".join(lines).replace("\u202f", " ")


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Return rows of text in columns: the first `left` columns flush left, the others right.

    >>> print(text_table(["class", "kept"], [["otter", "12"], ["seal", "1,024"]]))
    class   kept
    otter     12
    seal   1,024

    Cells are made `visible`: whatever is in them, a row is one line. The last column is never
    padded, so that it may hold a sentence.
    """
    lines = [[visible(cell) for cell in line] for line in (head, *rows)]
    widths = [max(len(line[k]) for line in lines) for k in range(len(head))]
    last = len(head) - 1
    padded = [
        [
            text.ljust(width) if k < left else text.rjust(width)
            for k, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        for line in lines
    ]
    for line, plain in zip(padded, lines, strict=True):
        # Flush right, the padding is in front, and must stay.
        if last < left:
            line[last] = plain[last]
    return "\n".join("  ".join(line).rstrip() for line in padded)


def spreadsheet_cell(value: object) -> str:
    """Return a value as a cell that a spreadsheet shows and does not compute.

    >>> spreadsheet_cell("=1+1"), spreadsheet_cell("otter"), spreadsheet_cell(-3)
    ("'=1+1", 'otter', '-3')

    A text that begins like a formula gets an apostrophe in front; so does one that begins with
    apostrophes and goes on like a formula, so that `from_spreadsheet_cell` gives every text back.
    """
    text = str(value)
    marked = isinstance(value, str) and text.lstrip("'").startswith(_FORMULA)
    return f"'{text}" if marked else text


def write_csv(file: TextIO, head: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Write a table for a spreadsheet: its cells are shown, and none is computed.

    `file` is a text file that was opened with ``newline=""``.
    """
    writer = csv.writer(file)
    writer.writerow(head)
    writer.writerows(map(spreadsheet_cell, row) for row in rows)


def from_spreadsheet_cell(cell: str) -> str:
    """Return the text that `spreadsheet_cell` wrote.

    >>> from_spreadsheet_cell("'=1+1"), from_spreadsheet_cell("'tis")
    ('=1+1', "'tis")
    """
    return cell[1:] if cell[:1] == "'" and cell.lstrip("'").startswith(_FORMULA) else cell
