"""Parquet files, one or a folder of them: features, images or texts."""

import re
from pathlib import Path

from kspr.data.readers._assemble import records_of
from kspr.data.readers._parquet_table import open_parquet_table
from kspr.data.readers._reader import Reader
from kspr.data.readers._splits import SPLITS
from kspr.data.readers._wording import listed
from kspr.data.records import ReadOptions, Records
from kspr.errors import InputError

__all__ = ["PARQUET"]

_SUFFIXES = (".parquet", ".pq")


def _files(folder: Path) -> list[Path]:
    inside = folder.iterdir() if folder.is_dir() else ()
    return sorted(p for p in inside if p.suffix.lower() in _SUFFIXES and p.name[0] not in "._")


def _matches(path: Path, options: ReadOptions) -> bool:  # noqa: ARG001 - told by the name alone
    return path.suffix.lower() in _SUFFIXES or bool(_files(path))


def _read(path: Path, options: ReadOptions) -> Records:
    files = _files(path) or [path]
    _check_one_split(path, files)
    return records_of(open_parquet_table(*files), path, PARQUET.name, options)


def _check_one_split(folder: Path, files: list[Path]) -> None:
    names = sorted({re.split(r"[-_.]", file.name)[0].lower() for file in files})
    if len(names) > 1 and set(names) <= SPLITS:
        raise InputError(
            f"{folder} holds several splits: {listed(names)}. Name one file, or put each split "
            "into a folder of its own."
        )


PARQUET = Reader(
    "parquet",
    "parquet (.parquet, or a folder of them): feature columns, one list column, images or texts",
    _matches,
    _read,
)
