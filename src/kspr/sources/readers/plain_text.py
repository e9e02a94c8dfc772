"""Text files as plain UTF-8: compressed or otherwise encoded ones are copied to a temporary file.

Arrow then opens every text file by name, as often as it is needed.
"""

import codecs
import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from kspr.errors import InputError
from kspr.sources.readers._spill import room, scratch_file
from kspr.sources.readers.file_checks import GZIP, check_file, readable, too_large, unpacked_limit

__all__ = ["PlainText", "plain_text"]

_BLOCK = 1 << 20
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Byte-order marks; those of UTF-32 first, because one of UTF-16 is the beginning of theirs."""


@dataclass(frozen=True)
class PlainText:
    """A text file, and where its content lies as UTF-8."""

    path: Path
    """The file that the user named."""
    data: Path
    """The same file, or a temporary copy of its content."""
    encoding: str = "utf-8"
    """The encoding of the user's file."""
    owner: Any = None
    """The temporary file, which is removed when nothing refers to it any more."""


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
        return PlainText(path, path)
    copy = scratch_file()
    try:
        with readable(path, kind), gzip.open(path) if gzipped else path.open("rb") as file:
            _copy(file, copy, path, chosen)
    except BaseException:
        copy.close()
        raise
    return PlainText(path, Path(copy.name), chosen, copy)


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
    limit, size = unpacked_limit(), 0
    decoder = None if encoding == "utf-8" else codecs.getincrementaldecoder(encoding)()
    for block in _blocks(file):
        size += len(block)
        if size > limit:
            raise too_large(str(path), limit)
        with room():
            copy.write(block if decoder is None else _decoded(decoder, block, path, encoding))
    with room():
        if decoder is not None:
            copy.write(_decoded(decoder, b"", path, encoding))
        # Arrow opens the file by its name.
        copy.flush()


def _blocks(file: Any) -> Iterator[bytes]:
    while block := file.read(_BLOCK):
        yield block


def _decoded(decoder: Any, block: bytes, path: Path, encoding: str) -> bytes:
    try:
        text: str = decoder.decode(block, not block)
    except UnicodeDecodeError as error:
        byte = error.object[error.start] if error.start < len(error.object) else 0
        raise InputError(
            f"{path} is not {encoding}: it has the byte 0x{byte:02x} where none can be. Name "
            "another --encoding."
        ) from error
    # A lone half of a pair of UTF-16 has no place in UTF-8.
    return text.encode("utf-8", "replace")
