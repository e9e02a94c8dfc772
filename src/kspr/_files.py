"""Files and folders that appear whole or not at all, and the JSON and Arrow tables in them."""

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
    "read_toml",
    "staged",
    "user_cache",
    "write_json",
    "write_parquet",
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
