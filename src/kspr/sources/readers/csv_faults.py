"""What CSV files have in common, and why one could not be read: line, value, way out.

The explanations run only after a failure, so that they may read the file once more.
"""

import codecs
import csv
from collections.abc import Sequence
from pathlib import Path

from kspr.errors import InputError
from kspr.sources.readers.file_checks import shown
from kspr.sources.readers.plain_text import PlainText

__all__ = ["NULLS", "explain", "explain_encoding", "split_by"]

NULLS = ["", "#N/A", "N/A", "NA", "NULL", "NaN", "-NaN", "-nan", "None", "n/a", "nan", "null", "?"]
"""What stands for a missing number."""


def split_by(header: str, usual: str = ",") -> str:
    """Return the delimiter of a header line: `usual` if it is in it, else ; or tab or comma."""
    return next((mark for mark in (usual, ";", "\t", ",") if mark in header), usual)


def explain(
    text: PlainText, delimiter: str, decimal: str, numeric: Sequence[str], error: Exception
) -> InputError:
    """Return the sentence for a file that Arrow refused with `error`."""
    reason = " ".join(str(error).split())[:120]
    # Encoding first: looking for a wrong cell decodes the file as well.
    return (
        _wrong_encoding(text)
        or _no_rows(text)
        or _wrong_cell(text, delimiter, decimal, numeric)
        or InputError(f"{text.path} cannot be read as a table ({reason}).")
    )


def explain_encoding(path: Path, error: UnicodeDecodeError) -> InputError:
    """Return the sentence for a file that was decoded as a whole."""
    line = error.object[: error.start].count(b"\n") + 1
    return _not_utf8(path, line, error.start, error.object[error.start])


def _not_utf8(path: Path, line: int, at: int, byte: int) -> InputError:
    return InputError(
        f"{path} is not UTF-8: line {line} (byte {at}) has the byte 0x{byte:02x}. Save it as "
        "UTF-8, or name its encoding, for example with --encoding windows-1252."
    )


def _wrong_encoding(text: PlainText) -> InputError | None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    start = line = 0
    with text.data.open("rb") as file:
        while block := file.read(1 << 20):
            # Bytes of a character that the end of the last block cut; error.start counts them too.
            pending = len(decoder.getstate()[0])
            try:
                decoder.decode(block)
            except UnicodeDecodeError as error:
                at = start - pending + error.start
                line += block[: max(0, error.start - pending)].count(b"\n")
                return _not_utf8(text.path, line + 1, at, error.object[error.start])
            start += len(block)
            line += block.count(b"\n")
    return None


def _no_rows(text: PlainText) -> InputError | None:
    with text.data.open("rb") as file:
        lines = file.read(1 << 20).strip().count(b"\n")
    return None if lines else InputError(f"{text.path} has no rows below its header.")


def _wrong_cell(
    text: PlainText, delimiter: str, decimal: str, numeric: Sequence[str]
) -> InputError | None:
    path = text.path
    # -sig: Excel writes a byte-order mark, which would become part of the first name.
    with text.data.open(encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file, delimiter=delimiter)
        header = next(lines)
        columns = [(header.index(name), name) for name in numeric if name in header]
        # Arrow passes over empty lines, so they do not count as rows here either.
        for row, cells in enumerate(filter(None, lines)):
            if len(cells) != len(header):
                return InputError(
                    f"{path} has {len(cells)} cells in line {lines.line_num} where its header has "
                    f"{len(header)}. Correct the line; a cell with a comma in it needs quotes."
                )
            for position, name in columns:
                if not _is_numeric(cells[position], decimal):
                    mark = " with a decimal comma" if decimal == "," else ""
                    return InputError(
                        f"Feature column {name!r} of {path} must hold numbers{mark}, got "
                        f"{shown(cells[position])} in row {row}. Correct it, or name other columns "
                        "with --features."
                    )
    return None


def _is_numeric(cell: str, decimal: str) -> bool:
    if decimal == "," and "." in cell:
        return False
    try:
        float(cell.replace(decimal, "."))
    except ValueError:
        return cell in NULLS
    # float() takes 1_000, Arrow does not.
    return "_" not in cell
