"""Where the files of a source are: on this machine or at an address; one, a folder, a pattern.

An address begins with the name of a storage system: ``s3://bucket/folder``. Arrow opens those that
it knows, `fsspec` the others. Imports nothing heavy before an address is used.
"""

import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from kspr.errors import InputError, MissingExtraError

__all__ = [
    "absolute",
    "address_of",
    "exists",
    "is_pattern",
    "list_files",
    "local",
    "open_input",
]

# A letter alone is a drive of Windows.
_ADDRESS = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):/{1,2}(?=[^/])")
_WILD = re.compile(r"[*?\[]")


def address_of(source: Path | str) -> str | None:
    """Return the address that `source` is; None for a path of this machine.

    >>> address_of(Path("s3://bucket/parts"))
    's3://bucket/parts'
    """
    text = str(source)
    # A Path has folded the two slashes into one.
    return _ADDRESS.sub(r"\1://", text) if _ADDRESS.match(text) else None


def local(source: Path | str) -> Path | None:
    """Return the path of a source on this machine; None for an address."""
    return Path(source) if address_of(source) is None else None


def absolute(source: Path | str) -> str:
    """Return where a source is, whatever the current folder."""
    return address_of(source) or str(Path(source).resolve())


def is_pattern(source: Path | str) -> bool:
    """Return whether `source` stands for all files whose names fit: ``parts/*.parquet``."""
    address = address_of(source)
    if address is not None:
        return _WILD.search(urlsplit(address).path) is not None
    # A file may have such a name of its own.
    return _WILD.search(str(source)) is not None and not Path(source).exists()


def exists(source: Path | str) -> bool:
    """Return whether there is a file or a folder, or a file that fits a pattern."""
    return Path(source).exists() if _is_plain(source) else bool(list_files(source))


def _is_plain(source: Path | str) -> bool:
    return address_of(source) is None and not is_pattern(source)


def list_files(source: Path | str, suffixes: tuple[str, ...] = ("",)) -> list[str]:
    """Return the files of a source, sorted: itself, those in its folder, or those that fit.

    Of a folder, those whose names end in one of the `suffixes`. Hidden files are left out.
    """
    # Arrow's data sets skip a leading dot or underscore as well: such files are no data. macOS puts
    # "._" files beside those that it copies.
    if _is_plain(source):
        path = Path(source)
        inside = path.iterdir() if path.is_dir() else ()
        files = [str(p) for p in inside if _is_data(p.name, suffixes) and p.is_file()]
        return sorted(files) if path.is_dir() else [str(path)] * path.exists()
    system, path_there, address = _located(source)
    return sorted(map(address, _matching(system, PurePosixPath(path_there), suffixes)))


def open_input(uri: str) -> Any:
    """Return a file to read at any place, as Arrow's readers take it."""
    system, path, _ = _located(uri)
    return system.open_input_file(path)


def _located(source: Path | str) -> tuple[Any, str, Callable[[str], str]]:
    """Return the file system of a source, its path there, and what makes an address of a path."""
    from pyarrow.fs import LocalFileSystem

    address = address_of(source)
    if address is None:
        return LocalFileSystem(), str(source), str
    parts = urlsplit(address)
    if "@" in parts.netloc or "secret" in parts.query:
        raise InputError(
            f"The address of {parts.path!r} holds a key, which the run would keep. Leave it out, "
            "and set the variables of the storage system, such as AWS_SECRET_ACCESS_KEY."
        )
    system, root = _opened(urlunsplit(parts._replace(path="/")))
    return (
        system,
        root + parts.path,
        lambda path: urlunsplit(parts._replace(path=path.removeprefix(root))),
    )


# Connecting takes time, and there are a file and a folder to open for each part.
@lru_cache(maxsize=8)
def _opened(root: str) -> tuple[Any, str]:
    from pyarrow import ArrowException, ArrowInvalid, fs

    try:
        system, path = fs.FileSystem.from_uri(root)
    except ArrowInvalid:
        return _by_fsspec(root)
    except (ArrowException, OSError) as error:
        raise _unreachable(root, error) from error
    return system, path.rstrip("/")


def _by_fsspec(root: str) -> tuple[Any, str]:
    """Return a file system that Arrow does not know itself."""
    from pyarrow import fs

    scheme = urlsplit(root).scheme
    try:
        import fsspec  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingExtraError(f"An address that begins with {scheme}://", "fsspec") from error
    try:
        system, path = fsspec.core.url_to_fs(root)
    # Its packages have errors of their own kinds.
    except Exception as error:
        raise _unreachable(root, error) from error
    return fs.PyFileSystem(fs.FSSpecHandler(system)), str(path).rstrip("/")


def _unreachable(uri: str, error: Exception) -> InputError:
    reason = " ".join(str(error).split())[:160].rstrip(".")
    return InputError(f"{uri} cannot be reached ({reason}). Check the address and its permissions.")


def _matching(system: Any, pattern: PurePosixPath, suffixes: tuple[str, ...]) -> list[str]:
    """Return the files that fit a pattern, or those in it if it is a folder."""
    from pyarrow import ArrowException
    from pyarrow.fs import FileType

    steps = list(pattern.parts)
    plain = next((i for i, step in enumerate(steps) if _WILD.search(step)), len(steps))
    start = str(PurePosixPath(*steps[:plain])) if plain else "."
    try:
        entries = [(system.get_file_info(start), start)]
        for step in steps[plain:]:
            inside = [entry for folder, _ in entries for entry in _listed(system, folder)]
            entries = [
                (entry, entry.path) for entry in inside if fnmatchcase(entry.base_name, step)
            ]
        if plain == len(steps) and entries[0][0].type == FileType.Directory:
            here = _listed(system, entries[0][0])
            entries = [(e, e.path) for e in here if _is_data(e.base_name, suffixes)]
    except (ArrowException, OSError) as error:
        raise _unreachable(str(pattern), error) from error
    named = plain == len(steps)
    return [
        path
        for entry, path in entries
        if entry.type == FileType.File and (named or _is_data(entry.base_name, ("",)))
    ]


def _listed(system: Any, folder: Any) -> Sequence[Any]:
    from pyarrow.fs import FileSelector, FileType

    if folder.type != FileType.Directory:
        return ()
    entries: Sequence[Any] = system.get_file_info(FileSelector(folder.path))
    return entries


def _is_data(name: str, suffixes: tuple[str, ...]) -> bool:
    return name[:1] not in ("", ".", "_") and name.lower().endswith(suffixes)
