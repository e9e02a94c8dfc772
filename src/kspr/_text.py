"""Plain text: tables that commands print, and cells of files that spreadsheets open."""

from collections.abc import Sequence

__all__ = ["from_spreadsheet_cell", "spreadsheet_cell", "text_table"]

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet may take a cell that begins so for a formula, and run it."""


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Return rows of text in columns: the first `left` columns flush left, the others right.

    >>> print(text_table(["class", "kept"], [["otter", "12"], ["seal", "1,024"]]))
    class   kept
    otter     12
    seal   1,024

    The last column is never padded, so that it may hold a sentence.
    """
    lines = [list(head), *map(list, rows)]
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


def from_spreadsheet_cell(cell: str) -> str:
    """Return the text that `spreadsheet_cell` wrote.

    >>> from_spreadsheet_cell("'=1+1"), from_spreadsheet_cell("'tis")
    ('=1+1', "'tis")
    """
    return cell[1:] if cell[:1] == "'" and cell.lstrip("'").startswith(_FORMULA) else cell
