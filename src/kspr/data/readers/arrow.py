"""Arrow and Feather files."""

from pathlib import Path

from kspr.data.readers._assemble import records_of
from kspr.data.readers._ipc_table import open_ipc_table
from kspr.data.readers._reader import Reader
from kspr.data.records import ReadOptions, Records

__all__ = ["ARROW"]


def _matches(path: Path, options: ReadOptions) -> bool:  # noqa: ARG001 - told by the name alone
    return path.suffix.lower() in {".arrow", ".feather", ".ipc"}


def _read(path: Path, options: ReadOptions) -> Records:
    return records_of(open_ipc_table(path), path, ARROW.name, options)


ARROW = Reader(
    "arrow",
    "Arrow or Feather table (.arrow, .feather): as parquet, memory-mapped where not compressed",
    _matches,
    _read,
)
