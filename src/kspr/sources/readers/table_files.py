"""Opening tables in files: CSV, parquet, Arrow, and folders of these."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kspr._files import read_json
from kspr.errors import InputError
from kspr.sources.formats import HUGGING_FACE_FILES, find_format, format_of
from kspr.sources.options import AS_FOUND, ReadOptions
from kspr.sources.places import list_files
from kspr.sources.readers._arrow_tables import open_ipc_table, open_parquet_table
from kspr.sources.readers._csv_table import open_csv_table
from kspr.sources.readers._json_table import open_json_table
from kspr.sources.readers.file_checks import listed
from kspr.sources.readers.roles import SPLITS
from kspr.sources.readers.table import Table

__all__ = ["TABLES", "open_table_file"]

_STATE, _SPLIT_LIST = HUGGING_FACE_FILES


def open_table_file(path: Path, options: ReadOptions = AS_FOUND) -> Table | None:
    """Return the table at `path`; None if its format is not one of tables."""
    found = format_of(path)
    if found is None or found.name not in TABLES:
        return None
    return TABLES[found.name](path, options)


def _open_csv(path: Path, options: ReadOptions) -> Table:
    return open_csv_table(path, options.encoding, options.decimal)


def _open_json(path: Path, options: ReadOptions) -> Table:
    return open_json_table(path, options.encoding)


def _open_arrow(path: Path, _: ReadOptions) -> Table:
    return open_ipc_table(*_files(path, "arrow"))


def _open_parquet(path: Path, _: ReadOptions) -> Table:
    return open_parquet_table(*_files(path, "parquet"))


def _files(path: Path, name: str) -> list[str]:
    """Return the files of a table: one, those of a folder, or those that fit a pattern."""
    files = list_files(path, find_format(name).suffixes)
    if not files:
        raise InputError(f"{path} does not exist, or holds no {name} file.")
    # Shards of one split (train-00000-of-00003.parquet) are one table; two splits beside each
    # other are not.
    names = sorted({re.split(r"[-_.]", Path(file).name)[0].lower() for file in files})
    if len(names) > 1 and set(names) <= SPLITS:
        raise InputError(
            f"{path} holds several splits: {listed(names)}. Name one file, or put each split "
            "into a folder of its own."
        )
    return files


def _open_hugging_face(path: Path, _: ReadOptions) -> Table:
    if (path / _SPLIT_LIST).is_file():
        found = _read_dictionary(path / _SPLIT_LIST).get("splits")
        splits = [str(name) for name in found] if isinstance(found, list) else []
        first = path / next(iter(splits), "train")
        raise InputError(f"{path} holds the splits {listed(splits)}. Name one, such as {first}.")
    state = _read_dictionary(path / _STATE)
    names = _file_names(state)
    if names is None:
        raise InputError(f"{path / _STATE} does not list the files of a data set. Copy it again.")
    if not names:
        raise InputError(f"{path} has no rows.")
    # A name is a file in this folder: a path that leads out of it is not followed.
    return open_ipc_table(*(str(path / Path(name).name) for name in names))


def _file_names(state: Mapping[str, Any]) -> list[str] | None:
    """Return the names of the data files; None if the entries are of other types."""
    entries = state.get("_data_files")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        return None
    names = [entry.get("filename") for entry in entries]
    return names if all(isinstance(name, str) and Path(name).name for name in names) else None


def _read_dictionary(path: Path) -> dict[str, Any]:
    content = read_json(path)
    if not isinstance(content, dict):
        raise InputError(
            f"{path} cannot be read as JSON; it may be cut short or damaged. Write or copy it "
            "again."
        )
    return content


TABLES: Mapping[str, Callable[[Path, ReadOptions], Table]] = {
    "csv": _open_csv,
    "parquet": _open_parquet,
    "arrow": _open_arrow,
    "jsonl": _open_json,
    "huggingface": _open_hugging_face,
}
"""The function that opens each format of tables."""
