"""Checks that every reader makes of its file, and the sentences for what is wrong with it."""

import errno
import os
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

import numpy as np
import pyarrow as pa

from kspr.errors import InputError

__all__ = [
    "GZIP",
    "check_exists",
    "check_file",
    "listed",
    "no_room",
    "no_such",
    "pixel_limit",
    "readable",
    "rows",
    "shown",
    "too_large",
    "too_many_pixels",
    "unpacked_limit",
]


def rows(numbers: Sequence[int] | np.ndarray) -> str:
    """Name a few row numbers: ``row 7``, ``rows 3, 17 and 5 more``."""
    few = ", ".join(str(int(number)) for number in numbers[:5])
    more = f" and {len(numbers) - 5} more" if len(numbers) > 5 else ""
    return f"row{'s' * (len(numbers) > 1)} {few}{more}"


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
        found = path.exists()
    except OSError as error:  # the name is too long, or leads in a circle
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"{shown(str(path), 200)} cannot be opened ({reason}).") from error
    if not found:
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
        yield
    # An InputError is a ValueError, which would count as damage below.
    except InputError:
        raise
    except PermissionError as error:
        raise InputError(f"{path} may not be read. Check its permissions.") from error
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise no_room() from error
        raise _damaged(path, kind, error) from error
    except _DAMAGE as error:
        raise _damaged(path, kind, error) from error


def _damaged(path: Path | str, kind: str, error: Exception) -> InputError:
    reason = " ".join(str(error).split()).split(". ")[0].rstrip(".")
    reason = reason if len(reason) <= 120 else f"{reason[:117]}..."
    return InputError(
        f"{path} cannot be read as {kind}; it may be cut short or damaged ({reason}). Write or "
        "copy it again."
    )


def no_room() -> InputError:
    """Return the error for a full disk."""
    return InputError(
        "There is no room for a temporary copy of the data. Free some space, or set TMPDIR to a "
        "folder on a larger disk."
    )


_UNPACKED, _PIXELS = "KSPR_MAX_UNPACKED_GB", "KSPR_MAX_MEGAPIXELS"
"""Environment variables: a limit holds wherever a file is read, in reports and reviews too."""


def unpacked_limit() -> int:
    """Return how many bytes a compressed file may unpack to."""
    return int(_limit(_UNPACKED, 8, "gigabytes") * 1e9)


def pixel_limit() -> int:
    """Return how many pixels an image may have."""
    return int(_limit(_PIXELS, 80, "millions of pixels") * 1e6)


def _limit(variable: str, usual: float, unit: str) -> float:
    asked = os.environ.get(variable) or str(usual)
    try:
        limit = float(asked)
    except ValueError:
        limit = 0.0
    if not 0 < limit < 1e9:
        raise InputError(f"{variable} must be a number of {unit}, got {shown(asked)}.")
    return limit


def too_many_pixels(what: str, limit: int) -> str:
    """Return the sentence for an image that would take too much memory."""
    return (
        f"{what} has more than {limit / 1e6:g} million pixels. If that is right, set {_PIXELS} to "
        "a larger number."
    )


def too_large(what: str, limit: int) -> InputError:
    """Return the error for a compressed file that unpacks to more than `limit` bytes."""
    return InputError(
        f"{what} unpacks to more than {limit / 1e9:g} GB. If that is right, set {_UNPACKED} to a "
        "larger number."
    )
