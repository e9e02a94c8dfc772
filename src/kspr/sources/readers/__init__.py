"""Readers of users' own files: one format a file, one line in the registry."""

import os
from pathlib import Path
from typing import Any

from kspr.errors import InputError
from kspr.sources.readers._labels import read_label_file
from kspr.sources.readers._roles import LABEL_NAMES
from kspr.sources.readers.arrays import NPY, NPZ
from kspr.sources.readers.guard import check_exists, check_file
from kspr.sources.readers.image_folder import IMAGE_FOLDER
from kspr.sources.readers.tables import (
    ARROW,
    DELIMITED,
    HUGGING_FACE,
    MANIFEST,
    PARQUET,
    read_object,
)
from kspr.sources.records import Reader, ReadOptions, Records

__all__ = ["LABEL_NAMES", "READERS", "Reader", "read", "read_label_file"]

# The first that matches reads: lists of images come before tables, layouts before any folder.
READERS: tuple[Reader, ...] = (
    NPY,
    NPZ,
    MANIFEST,
    DELIMITED,
    PARQUET,
    ARROW,
    HUGGING_FACE,
    IMAGE_FOLDER,
)


def read(source: Path | Any, options: ReadOptions) -> Records:
    """Return the rows of a file, a folder, or a table in memory.

    Raise `InputError`, in a sentence, if that is not possible.
    """
    if not isinstance(source, (str, os.PathLike)):
        return read_object(source, options)
    path = Path(source)
    check_exists(path)
    for reader in READERS:
        if reader.matches(path, options):
            return reader.read(path, options)
    check_file(path, "a file that kspr can read")
    raise InputError(
        f"{path} has no suffix that kspr knows. Use .npy, .npz, .csv, .tsv, .parquet, .arrow or "
        "a folder of images."
    )
