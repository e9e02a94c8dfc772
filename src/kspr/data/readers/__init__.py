"""Readers of users' own files: one format a file, one line in the registry."""

import os
from pathlib import Path
from typing import Any

from kspr.data.readers._guard import check_exists, check_file
from kspr.data.readers._labels_file import read_label_file
from kspr.data.readers._reader import Reader
from kspr.data.readers._roles import LABEL_NAMES
from kspr.data.readers.arrow import ARROW
from kspr.data.readers.delimited import DELIMITED
from kspr.data.readers.huggingface import HUGGING_FACE
from kspr.data.readers.image_folder import IMAGE_FOLDER
from kspr.data.readers.manifest import MANIFEST
from kspr.data.readers.npy import NPY
from kspr.data.readers.npz import NPZ
from kspr.data.readers.objects import read_object
from kspr.data.readers.parquet import PARQUET
from kspr.data.records import ReadOptions, Records
from kspr.errors import InputError

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
