"""Files and folders that appear whole or not at all, and the JSON and Arrow tables in them."""

import hashlib
import json
import os
import shutil
import tomllib
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kspr.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "read_json",
    "read_sealed",
    "read_toml",
    "staged",
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
    was written is on disk before it takes its place, so a crash cannot leave an empty file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # The suffix stays: writers tell the format by it.
    mark = uuid.uuid4().hex
    staging = path.with_name(f".{path.stem}.{mark}{path.suffix}")
    retired = path.with_name(f".{path.stem}.{mark}.old")
    try:
        yield staging
        _sync(staging)
        if path.is_dir() or staging.is_dir():
            # A folder cannot be replaced in one step unless it is empty.
            if path.exists():
                path.rename(retired)
            staging.rename(path)
        else:
            staging.replace(path)
    except BaseException:
        _remove(staging)
        # Stopped between the two renames: the old folder goes back to its place.
        if retired.exists() and not path.exists():
            retired.rename(path)
        raise
    _sync_folder(path.parent)
    _remove(retired)


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with staged(path) as staging:
        staging.write_text(text, encoding="utf-8")


def write_json(path: Path, content: Any, *, indent: int = 2) -> None:
    """Write a JSON document, whole or not at all."""
    write_text(path, json.dumps(content, indent=indent, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """Return a JSON document; None where there is none, or one that was cut off."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return None


def write_sealed(path: Path, content: dict[str, Any], *files: str) -> None:
    """Write a JSON document with a checksum of itself and of `files`, which are beside it."""
    sums = {name: _checksum((path.parent / name).read_bytes()) for name in files}
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
        if Path(name).name != name or not beside.is_file():
            raise _damaged(beside, "is missing")
        if sums.get(name) != _checksum(beside.read_bytes()):
            raise _damaged(beside, "is not as it was written")
    return content


def _plain_json(content: Any) -> bytes:
    # Through JSON once: tuples become lists, and keys become texts, as they do in the file.
    plain = json.loads(json.dumps(content))
    return json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _damaged(path: Path, how: str) -> InputError:
    return InputError(f"{path} {how}: it was changed or damaged. Make it again, or copy it again.")


def read_toml(path: Path) -> dict[str, Any]:
    """Return a TOML file of the user's; raise `InputError` with one sentence if it is none."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{path} cannot be read as a TOML file: {why}.") from error


def write_parquet(path: Path, table: "pa.Table") -> None:
    """Write an Arrow table as parquet, whole or not at all."""
    import pyarrow.parquet as pq

    with staged(path) as staging:
        pq.write_table(table, staging)


def user_cache() -> Path:
    """Return the user's cache folder of this package; it may not exist yet."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "kspr"


def _sync(path: Path) -> None:
    """Wait until a file, or every file of a folder, is on disk."""
    for file in [path] if path.is_file() else path.rglob("*"):
        if file.is_file():
            with file.open("rb") as opened:
                os.fsync(opened.fileno())


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
