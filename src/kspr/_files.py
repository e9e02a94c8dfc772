"""Files and folders that appear whole or not at all, and the JSON and Arrow tables in them."""

import hashlib
import json
import mmap
import os
import shutil
import tomllib
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kspr.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


@contextmanager
def staged(path: Path) -> Iterator[Path]:
    """Yield a name beside `path`; what is written there takes the place of `path` at the end.

    If the block fails or is interrupted, `path` stays as it was and nothing is left behind. What
    was written is on disk before it takes its place, so a crash cannot leave an empty file. A
    process that is killed leaves a hidden file or folder beside `path`, which may be removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # The suffix stays: writers tell the format by it.
    staging = path.with_name(f".{path.stem}.{uuid.uuid4().hex[:8]}{path.suffix}")
    retired = path.with_name(f".{path.name}.kspr-old")
    # Of a process that was killed between the two renames below.
    _bring_back(retired, path)
    try:
        yield staging
        _sync(staging)
        if path.exists() and (path.is_dir() or staging.is_dir()):
            # A folder cannot be renamed to one that is not empty.
            path.rename(retired)
        staging.replace(path)
    except BaseException:
        _remove(staging)
        _bring_back(retired, path)
        raise
    _sync_folder(path.parent)
    _remove(retired)


def _bring_back(retired: Path, path: Path) -> None:
    """Rename the earlier `path` back, or remove it if there is a later one."""
    if path.exists():
        _remove(retired)
    elif retired.exists():
        retired.rename(path)


@contextmanager
def alone_in(folder: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Wait until no other process is in `folder`; call `on_wait` once if that takes a while.

    The lock is a hidden file beside `folder`. The system releases the lock of a process that was
    killed. Where it has no such locks, nothing is waited for.
    """
    # Imported here: `kspr --help` imports this module and must be quick.
    from filelock import FileLock, Timeout

    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder.with_name(f".{folder.name}.lock"))
    try:
        lock.acquire(blocking=False)
    except Timeout:
        on_wait()
        lock.acquire()
    except OSError:
        # Some network drives have no locks.
        pass
    try:
        yield
    finally:
        if lock.is_locked:
            # While it is held: whoever waits for this file sees that it is gone, and makes another.
            Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with staged(path) as staging:
        staging.write_text(text, encoding="utf-8")


def write_json(path: Path, content: Any, *, indent: int = 2) -> None:
    """Write a JSON document, whole or not at all."""
    write_text(path, json.dumps(content, indent=indent, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """Return a JSON document; None without one, or where it is damaged."""
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
    # Imported here, as above.
    from platformdirs import user_cache_path

    return user_cache_path("kspr", appauthor=False)


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


def drop_pages(X: "np.ndarray") -> None:
    """Forget what has been read of a mapped file, or a pass would make the whole file resident."""
    file = mapped_file(X)
    if file is not None:
        file.madvise(mmap.MADV_DONTNEED)


def mapped_file(X: Any) -> Any:
    """Return the map behind an array that was opened for reading, if its pages may be dropped."""
    # Imported here: the command line's help needs no NumPy.
    import numpy as np

    base: Any = X
    while base is not None and not isinstance(base, np.memmap):
        base = getattr(base, "base", None)
    # Dropping pages of any other map loses data: a copy-on-write map ("c") forgets its changes, and
    # an anonymous one becomes zeros. A read-only view does not tell which kind it looks at.
    if base is None or base.mode != "r" or not hasattr(mmap, "MADV_DONTNEED"):
        return None
    return base._mmap  # type: ignore[attr-defined]
