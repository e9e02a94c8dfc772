"""What CSV files have in common, and why one could not be read: line, value, way out.

The explanations run only after a failure, so that they may read the file once more.
"""

import codecs
import csv
import io
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from kspr.errors import InputError
from kspr.sources.readers.file_checks import shown

__all__ = ["NULLS", "explain", "explain_encoding", "split_by"]

NULLS = ["", "#N/A", "N/A", "NA", "NULL", "NaN", "-NaN", "-nan", "None", "n/a", "nan", "null", "?"]
"""What stands for a missing number."""


def split_by(header: str, usual: str = ",") -> str:
    """Return the delimiter of a header line: `usual` if it is in it, else ; or tab or comma."""
    return next((mark for mark in (usual, ";", "\t", ",") if mark in header), usual)


def explain(path: Path, delimiter: str, numeric: Sequence[str], error: Exception) -> InputError:
    """Return the sentence for a file that Arrow refused with `error`."""
    # Encoding first: looking for a wrong cell decodes the file as well.
    return (
        _wrong_encoding(path)
        or _no_rows(path)
        or _wrong_cell(path, delimiter, numeric)
        or InputError(f"{path} cannot be read as a table ({' '.join(str(error).split())[:120]}).")
    )


def explain_encoding(path: Path, error: UnicodeDecodeError) -> InputError:
    """Return the sentence for a file that was decoded as a whole."""
    line = error.object[: error.start].count(b"\n") + 1
    return _not_utf8(path, line, error.start, error.object[error.start])


def _not_utf8(path: Path, line: int, at: int, byte: int) -> InputError:
    return InputError(
        f"{path} is not UTF-8: line {line} (byte {at}) has the byte 0x{byte:02x}. Convert it, for "
        "example with `iconv -f WINDOWS-1252 -t UTF-8`."
    )


def _wrong_encoding(path: Path) -> InputError | None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    start = line = 0
    with pa.input_stream(str(path)) as file:
        while block := file.read(1 << 20):
            # Bytes of a character that the end of the last block cut; error.start counts them too.
            pending = len(decoder.getstate()[0])
            try:
                decoder.decode(block)
            except UnicodeDecodeError as error:
                at = start - pending + error.start
                line += block[: max(0, error.start - pending)].count(b"\n")
                return _not_utf8(path, line + 1, at, error.object[error.start])
            start += len(block)
            line += block.count(b"\n")
    return None


def _no_rows(path: Path) -> InputError | None:
    with pa.input_stream(str(path)) as file:
        lines = file.read(1 << 20).strip().count(b"\n")
    return None if lines else InputError(f"{path} has no rows below its header.")


def _wrong_cell(path: Path, delimiter: str, numeric: Sequence[str]) -> InputError | None:
    with pa.input_stream(str(path)) as raw:
        # -sig: Excel writes a byte-order mark, which would become part of the first name.
        text = io.TextIOWrapper(raw, encoding="utf-8-sig", newline="")
        lines = csv.reader(text, delimiter=delimiter)
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
                if not _is_numeric(cells[position]):
                    return InputError(
                        f"Feature column {name!r} of {path} must hold numbers, got "
                        f"{shown(cells[position])} in row {row}. Correct it, or name other columns "
                        "with --features."
                    )
    return None


def _is_numeric(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell in NULLS
    # float() takes 1_000, Arrow does not.
    return "_" not in cell
