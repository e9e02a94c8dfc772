"""Files and folders that appear whole or not at all, and the JSON and Arrow tables in them."""

import hashlib
import json
import os
import platform
import re
import shutil
import tomllib
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kspr.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "checksum_of",
    "process_name",
    "read_json",
    "read_sealed",
    "read_toml",
    "staged",
    "sweep",
    "user_cache",
    "write_json",
    "write_parquet",
    "write_sealed",
    "write_text",
]


@contextmanager
def staged(path: Path) -> Iterator[Path]:
    """Yield a name beside `path`; what is written there takes the place of `path` at the end.

    If the block fails or is interrupted, `path` stays as it was and nothing is left behind. What
    was written is on disk before it takes its place, so a crash cannot leave an empty file. What a
    killed process left beside `path` is removed first.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    sweep(path.parent)
    mark = f"{process_name()}-{uuid.uuid4().hex[:8]}"
    # The suffix stays: writers tell the format by it.
    staging = path.with_name(f".{path.stem}.{mark}{path.suffix}")
    retired = path.with_name(f".{path.name}.{mark}.old")
    try:
        yield staging
        _sync(staging)
        if path.exists() and (path.is_dir() or staging.is_dir()):
            _replace_folder(staging, path, retired)
        else:
            staging.replace(path)
    except BaseException:
        _remove(staging)
        # Stopped between the two renames: the old folder goes back to its place.
        if retired.exists() and not path.exists():
            retired.rename(path)
        raise
    _sync_folder(path.parent)
    _remove(staging)
    _remove(retired)


def _replace_folder(staging: Path, path: Path, retired: Path) -> None:
    """Put a folder in the place of another, in one step where the system can."""
    # A folder cannot be renamed to one that is not empty.
    if not _exchange(staging, path):
        path.rename(retired)
        staging.rename(path)


def _exchange(one: Path, other: Path) -> bool:
    """Let two names change places in one step; return False where the system cannot."""
    import ctypes

    try:
        swap = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError):
        return False
    done: int = swap(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE)
    return done == 0


# The current folder instead of an open one, and the flag RENAME_EXCHANGE; both are Linux's.
_HERE, _EXCHANGE = -100, 2
_MARKED = re.compile(
    r"^\.(?P<name>.+)\.(?P<process>[0-9a-z]+-[0-9]+-(?P<pid>[0-9]+))-[0-9a-z_]{8}(?P<end>\.[^/]*)?$"
)
_swept: set[Path] = set()


def process_name() -> str:
    """Return what identifies this process: the machine, its space of process numbers, its own."""
    machine = re.sub(r"[^0-9a-z]", "", platform.node().lower())[:16] or "host"
    # Containers number their processes anew, and may share a name and a folder.
    space = Path("/proc/self/ns/pid")
    number = space.stat().st_ino if space.exists() else 0
    return f"{machine}-{number}-{os.getpid()}"


def sweep(folder: Path) -> None:
    """Remove what killed processes of this machine left in `folder`; once per process."""
    folder = folder.resolve()
    if folder in _swept:
        return
    _swept.add(folder)
    here = process_name().rpartition("-")[0]
    for left in folder.iterdir():
        found = _MARKED.match(left.name)
        if found is None or found["process"].rpartition("-")[0] != here:
            continue
        if _is_alive(int(found["pid"])):
            continue
        place = folder / found["name"]
        if found["end"] == ".old" and not place.exists():
            # Killed between the two renames.
            left.rename(place)
        else:
            _remove(left)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # One of another user may not be asked, but is there.
    except PermissionError:
        pass
    return True


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with staged(path) as staging:
        staging.write_text(text, encoding="utf-8")


def write_json(path: Path, content: Any, *, indent: int = 2) -> None:
    """Write a JSON document, whole or not at all."""
    write_text(path, json.dumps(content, indent=indent, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """Return a JSON document; None where there is none, or one that is damaged."""
    # Opening a pipe would wait for somebody who writes to it.
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, ValueError, RecursionError):
        return None


def write_sealed(path: Path, content: dict[str, Any], *files: str) -> None:
    """Write a JSON document with a checksum of itself and of `files`, which are beside it.

    These may be folders of files.
    """
    sums = {name: checksum_of(path.parent / name) for name in files}
    sealed = {**content, "checksums": sums}
    write_json(path, {**sealed, "checksum": _checksum(_plain_json(sealed))})


def read_sealed(path: Path, *files: str) -> dict[str, Any]:
    """Return what `write_sealed` wrote, if the document and its files are as they were written.

    `files` must be among those that were sealed. Raise `InputError` with one sentence otherwise.
    """
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path, "cannot be read") from error
    if not isinstance(content, dict) or not isinstance(content.get("checksums"), dict):
        raise _damaged(path, "has no checksums")
    if content.pop("checksum", None) != _checksum(_plain_json(content)):
        raise _damaged(path, "is not as it was written")
    sums = content.pop("checksums")
    for name in {*files, *sums}:
        beside = path.parent / name
        # A name that leads out of the folder would have other files read.
        if Path(name).name != name or not (beside.is_file() or beside.is_dir()):
            raise _damaged(beside, "is missing")
        if sums.get(name) != checksum_of(beside):
            raise _damaged(beside, "is not as it was written")
    return content


def _plain_json(content: Any) -> bytes:
    # Through JSON once: tuples become lists, and keys become texts, as they do in the file.
    plain = json.loads(json.dumps(content))
    return json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()


def checksum_of(path: Path) -> str:
    """Return a checksum of a file, or of the names and the contents of all files in a folder."""
    if path.is_dir():
        lines = (f"{part.name} {checksum_of(part)}" for part in sorted(path.iterdir()))
        return _checksum("\n".join(lines).encode())
    # A block at a time: a run may have a hundred million rows.
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _damaged(path: Path, how: str) -> InputError:
    return InputError(f"{path} {how}: it was changed or damaged. Make it again, or copy it again.")


def read_toml(path: Path) -> dict[str, Any]:
    """Return a TOML file of the user's; raise `InputError` with one sentence if it is none."""
    # Opening a pipe would wait for somebody who writes to it, and a device may have no end.
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise InputError(f"{path} cannot be read as a TOML file: it is a pipe or a device.")
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{path} cannot be read as a TOML file: {why}.") from error


def write_parquet(path: Path, table: "pa.Table | Iterator[pa.Table]") -> None:
    """Write an Arrow table as parquet, whole or not at all; parts of one come one by one."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    parts = iter([table]) if isinstance(table, pa.Table) else table
    with staged(path) as staging:
        first = next(parts)
        with pq.ParquetWriter(staging, first.schema) as writer:
            for part in chain([first], parts):
                writer.write_table(part)


def user_cache() -> Path:
    """Return the user's cache folder of this package; it may not exist yet."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "kspr"


def _sync(path: Path) -> None:
    """Wait until a file, or everything in a folder, is on disk."""
    for part in [path] if path.is_file() else [*path.rglob("*"), path]:
        if part.is_file():
            with part.open("rb") as opened:
                os.fsync(opened.fileno())
        elif part.is_dir():
            _sync_folder(part)


def _sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on disk, where the system can."""
    if hasattr(os, "O_DIRECTORY"):
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
