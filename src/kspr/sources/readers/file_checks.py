"""Opening files safely: checks that every reader makes, limits, text as UTF-8, temporary copies.

Compressed or otherwise encoded text files are copied to a temporary file as UTF-8, which can be
read as often as it is needed. Temporary files have no name: a killed process leaves none.
"""

import codecs
import errno
import gzip
import os
import tempfile
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from io import TextIOWrapper
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa

from kspr.errors import InputError


def listed(names: Iterable[str], most: int = 12) -> str:
    """Name a few things: ``'a', 'b' and 7 more``."""
    all_names = list(names)
    more = f" and {len(all_names) - most} more" if len(all_names) > most else ""
    return ", ".join(shown(name, 60) for name in all_names[:most]) + more


def shown(value: object, most: int = 40) -> str:
    """Quote a value, cut short if it is long."""
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 4]}...{text[-1]}"


def no_such(name: str, known: Iterable[str], where: str, what: str = "column") -> InputError:
    """Return the error for a name that is not there, with the names that are like it."""
    names = list(known)
    # Wrong case is the most common mistake, and difflib counts it as another letter.
    folded = {other.casefold(): other for other in names}
    near = [folded[key] for key in get_close_matches(name.casefold(), folded, n=3, cutoff=0.6)]
    if near:
        hint = f"Did you mean {' or '.join(shown(other, 60) for other in near)}?"
    else:
        hint = f"It has {listed(names)}." if names else f"It has no {what}s."
    return InputError(f"{where} has no {what} {shown(name, 60)}. {hint}")


_NATURES = {
    b"\x93NUMPY": "an npy file",
    b"PK\x03\x04": "a zip archive (npz, torch and Excel files are such)",
    b"PAR1": "a parquet file",
    b"ARROW1": "an Arrow file",
    b"\x1f\x8b": "a gzip file",
    b"\xff\xd8\xff": "a JPEG image",
    b"\x89PNG": "a PNG image",
    b"\x89HDF": "an HDF5 file",
}
GZIP = (b"\x1f\x8b",)
# What the readers of Arrow, NumPy and Python raise at random bytes, found by trying.
_DAMAGE = (
    *(pa.ArrowException, zipfile.BadZipFile, zlib.error, tokenize.TokenError),
    *(EOFError, LookupError, OverflowError, RuntimeError, SyntaxError, ValueError),
)
# Pickles of protocol 2 and later begin so; older ones are text, which no reader here runs.
_PICKLES = tuple(bytes((0x80, protocol)) for protocol in range(2, 6))


def check_exists(path: Path) -> None:
    """Raise unless there is something at `path`."""
    try:
        exists = path.exists()
    except OSError as error:  # the name is too long, or leads in a circle
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"{shown(str(path), 200)} cannot be opened ({reason}).") from error
    if not exists:
        raise InputError(f"{path} does not exist.")


def check_file(path: Path, kind: str, *magics: bytes) -> bytes:
    """Return the first bytes of a file; raise if they show that it is of another kind.

    `magics` are the first bytes that are right for this kind; none for text.
    """
    check_exists(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder, not {kind}.")
    # Opening a pipe waits for a writer, and a device may have no end.
    if not path.is_file():
        raise InputError(
            f"{path} is a pipe or a device; kspr reads regular files only, some of them twice. "
            "Save its content to a file."
        )
    with readable(path, kind), path.open("rb") as file:
        head = file.read(4096)  # enough to show a NUL byte in what should be text
    if not head:
        raise InputError(f"{path} is empty.")
    if head.startswith(_PICKLES):
        raise InputError(
            f"{path} is a pickle, not {kind}, and a pickle can run code when it is opened. Save "
            "the data as npz, csv or parquet."
        )
    for magic, nature in _NATURES.items():
        if head.startswith(magic) and magic not in magics:
            raise InputError(f"{path} is {nature}, not {kind}. Correct its suffix or convert it.")
    return head


@contextmanager
def readable(path: Path | str, kind: str) -> Iterator[None]:
    """Turn any error that a library raises at a damaged file into an `InputError`."""
    try:
        with room():
            yield
    # An InputError is a ValueError, which would count as damage below.
    except InputError:
        raise
    except PermissionError as error:
        raise InputError(f"{path} may not be read. Check its permissions.") from error
    except (OSError, *_DAMAGE) as error:
        reason = " ".join(str(error).split()).split(". ")[0].rstrip(".")
        reason = reason if len(reason) <= 120 else f"{reason[:117]}..."
        raise InputError(
            f"{path} cannot be read as {kind}; it may be cut short or damaged ({reason}). Write or "
            "copy it again."
        ) from error


_UNPACKED = "KSPR_MAX_UNPACKED_GB"
"""Environment variable: a limit holds wherever a file is read, in reports and reviews too."""


_UNPACKED_TO_ONE = 200
"""Bytes that a byte of a file may unpack to where that is more than a gigabyte: data have fewer."""
_ROWS = "KSPR_MAX_MILLION_ROWS"
_ROW_BYTES = 100
"""Bytes that a row takes at least while a source is read: its id, its label, its digest."""


def unpacked_limit(packed: int) -> int:
    """Return how many bytes a compressed file of the size `packed` may unpack to."""
    usual = max(1.0, _UNPACKED_TO_ONE * packed / 1e9)
    return int(limit_of(_UNPACKED, usual, "gigabytes") * 1e9)


def check_row_count(count: int, where: object) -> None:
    """Raise if a source has so many rows that memory would not hold what is known of each."""
    known = hasattr(os, "sysconf")
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if known else 16e9
    limit = limit_of(_ROWS, memory / _ROW_BYTES / 1e6, "millions of rows")
    if count > limit * 1e6:
        raise InputError(
            f"{where} has more than {limit:,.4g} million rows, which is what the memory of this "
            f"machine is enough for. Select from a part of them, or set {_ROWS} to a larger number."
        )


def limit_of(variable: str, usual: float, unit: str) -> float:
    """Return the limit that an environment variable sets, or the usual one."""
    asked = os.environ.get(variable) or str(usual)
    try:
        limit = float(asked)
    except ValueError:
        limit = 0.0
    if not 0 < limit < 1e9:
        raise InputError(f"{variable} must be a number of {unit}, got {shown(asked)}.")
    return limit


def too_large(what: str, limit: int) -> InputError:
    """Return the error for a compressed file that unpacks to more than `limit` bytes."""
    return InputError(
        f"{what} unpacks to more than {limit / 1e9:.3g} GB. If that is right, set {_UNPACKED} to a "
        "larger number."
    )


BLOCK_BYTES = 16 << 20
"""About how much of a file or an array is held at a time while it is walked."""
IN_MEMORY = 256 << 20
"""Bytes above which rows go to a temporary file."""


def map_bytes(
    file: IO[bytes], dtype: np.dtype[Any], shape: tuple[int, ...], offset: int = 0, order: Any = "C"
) -> np.ndarray:
    """Return a temporary file as a read-only memory map, and close it.

    The file has no name: it is gone with the last array that refers to the map.
    """
    with room(), file:
        file.flush()
        return np.memmap(file, dtype=dtype, mode="r", shape=shape, offset=offset, order=order)


def mapped(file: IO[bytes]) -> pa.Buffer:
    """Return what is in a temporary file, mapped: it is gone with the last array in it."""
    file.flush()
    # Nothing cannot be mapped.
    return pa.py_buffer(mmap(file.fileno(), 0, access=ACCESS_READ) if file.tell() else b"")


@contextmanager
def room() -> Iterator[None]:
    """Turn the error of a full disk into an `InputError`."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise InputError(
            "There is no room for a temporary copy of the data. Free some space, or set TMPDIR to "
            "a folder on a larger disk."
        ) from error


_COPIED = 1 << 20
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Byte-order marks; those of UTF-32 first, because one of UTF-16 is the beginning of theirs."""


@dataclass(frozen=True)
class PlainText:
    """A text file, whose content can be read as UTF-8."""

    path: Path
    """The file that the user named."""
    encoding: str = "utf-8"
    """The encoding of the user's file."""
    copy: pa.Buffer | None = None
    """Content as UTF-8, mapped from a temporary file, where that of the user's is not plain."""

    def open(self) -> Any:
        """Return the content as a file of bytes, as Arrow's readers and Python's take it."""
        # Not by its name, from which Arrow would guess a compression.
        return pa.OSFile(str(self.path)) if self.copy is None else pa.BufferReader(self.copy)

    def lines(self, errors: str = "strict") -> TextIOWrapper:
        """Return the content as a file of text, without a mark at its beginning."""
        return TextIOWrapper(self.open(), "utf-8-sig", errors, newline="")

    def whole(self) -> str:
        """Return the content; raise `InputError` with the place of a byte that is not UTF-8."""
        with self.open() as file:
            content = file.read()
        try:
            return str(content, "utf-8-sig")
        except UnicodeDecodeError as error:
            raise explain_encoding(self.path, error) from error


def plain_text(path: Path, kind: str, encoding: str | None = None) -> PlainText:
    """Return the text at `path`; `kind` names it in errors.

    Without `encoding` a file is UTF-8, or what its byte-order mark says. Raise `InputError` if the
    file holds binary data, or unpacks to more than the limit.
    """
    # Compressed or not is told by the suffix, because Arrow goes by it too.
    gzipped = path.suffix.lower() == ".gz"
    head = check_file(path, kind, *(GZIP if gzipped else ()))
    if gzipped:
        with readable(path, kind), gzip.open(path) as file:
            head = file.read(4096)
    chosen = _encoding(path, head, encoding)
    if chosen == "utf-8" and b"\0" in head:
        raise InputError(
            f"{path} is not {kind}: it holds binary data. Correct its suffix, or name its "
            "--encoding."
        )
    if chosen == "utf-8" and not gzipped:
        return PlainText(path)
    with (
        readable(path, kind),
        gzip.open(path) if gzipped else path.open("rb") as file,
        tempfile.TemporaryFile() as copy,
    ):
        _copy(file, copy, path, chosen)
        return PlainText(path, chosen, mapped(copy))


def _encoding(path: Path, head: bytes, asked: str | None) -> str:
    marked = next((name for mark, name in _MARKS.items() if head.startswith(mark)), None)
    if asked is None:
        return marked or "utf-8"
    try:
        name = codecs.lookup(asked).name
        # Codecs such as base64 have names too; a text cannot be encoded in them.
        "".encode(asked)
    except (LookupError, ValueError) as error:
        raise InputError(
            f"--encoding must name an encoding of text, such as latin-1, got {asked!r}."
        ) from error
    if marked is not None and not name.startswith(marked):
        raise InputError(
            f"{path} begins with the mark of {marked}, but --encoding says {asked}. Leave it out."
        )
    return "utf-8" if name == "utf-8-sig" else name


def _copy(file: Any, copy: IO[bytes], path: Path, encoding: str) -> None:
    limit = unpacked_limit(path.stat().st_size)
    # UTF-8 is copied as it is: a byte that does not belong there is reported with its line later.
    text = file if encoding == "utf-8" else TextIOWrapper(file, encoding, newline="")
    try:
        while block := text.read(_COPIED):
            # A lone half of a pair of UTF-16 has no place in UTF-8.
            copy.write(block if isinstance(block, bytes) else block.encode("utf-8", "replace"))
            if copy.tell() > limit:
                raise too_large(str(path), limit)
    except UnicodeDecodeError as error:
        byte = error.object[error.start] if error.start < len(error.object) else 0
        raise InputError(
            f"{path} is not {encoding}: it has the byte 0x{byte:02x} where none can be. Name "
            "another --encoding."
        ) from error


def explain_encoding(
    path: Path, error: UnicodeDecodeError, lines: int = 0, start: int = 0
) -> InputError:
    """Return the sentence for a file that is not UTF-8; `lines` and `start` bytes were before."""
    line = lines + error.object[: error.start].count(b"\n") + 1
    return InputError(
        f"{path} is not UTF-8: line {line} (byte {start + error.start}) has the byte "
        f"0x{error.object[error.start]:02x}. Save it as UTF-8, or name its encoding, for example "
        "with --encoding windows-1252."
    )
