"""The one way to open a source: users' own files, tables in memory, published data sets."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kspr.errors import InputError
from kspr.sources.formats import FORMATS, Format, format_of, some_suffixes
from kspr.sources.options import AS_FOUND, ReadOptions
from kspr.sources.published import PUBLISHED, PublishedData, find_root, where
from kspr.sources.readers._npy import check_features, open_npy
from kspr.sources.readers.file_checks import check_exists, check_file
from kspr.sources.readers.image_folder import read_image_folder
from kspr.sources.readers.labels import class_names
from kspr.sources.readers.numpy_files import read_npy, read_npz
from kspr.sources.readers.roles import choose_label
from kspr.sources.readers.table import Table
from kspr.sources.readers.table_files import open_table_file
from kspr.sources.readers.tables import read_object, read_table
from kspr.sources.records import Records

__all__ = [
    "READERS",
    "Known",
    "Sources",
    "label_column",
    "list_sources",
    "open_source",
    "open_table",
]

READERS: Mapping[str, Callable[[Path, ReadOptions], Records]] = {
    "npy": read_npy,
    "npz": read_npz,
    "csv": read_table,
    # By its suffix a list of images is a CSV file; which of the two it is, its columns decide.
    "manifest": read_table,
    "parquet": read_table,
    "arrow": read_table,
    "huggingface": read_table,
    "imagefolder": read_image_folder,
}
"""The function that reads each format."""


def open_source(source: Path | str | Any, options: ReadOptions = AS_FOUND) -> Records:
    """Return the rows of a file, a folder, a published data set, or a table in memory.

    Raise `InputError` with one sentence if that is not possible.
    """
    if not isinstance(source, (str, os.PathLike)):
        return read_object(source, options)
    path = Path(source)
    beside = options.probabilities
    if beside is not None and Path(beside).is_file():
        records = open_source(path, replace(options, probabilities=None))
        return replace(records, probabilities=_probability_file(Path(beside), records))
    dataset = _published(path, options)
    if dataset is not None:
        # Layouts refuse every option that they do not take, and the split is no option of columns.
        return dataset.read(path, replace(options, split=None), split=options.split)
    if options.split is not None:
        raise InputError(f"{path} is no published data set; --split is for these only.")
    return _reader(path)(path, options)


def open_table(path: Path, options: ReadOptions = AS_FOUND) -> Table | None:
    """Return a source's table, from which all columns can be read as they are stored.

    None for a source without columns: arrays, folders of images, published data sets.
    """
    return None if _published(path, options) is not None else open_table_file(path)


def label_column(table: Table, options: ReadOptions, where: str) -> str:
    """Return the name of the column that the labels were read from.

    Labels of a second file (``options.labels``) belong into the table's own label column; where
    there is none, or more than one, into a new one.
    """
    names = class_names(table.metadata)
    try:
        own = choose_label(table.fields, None if options.labels else options.label, where, names)
    except InputError:
        if options.labels is None:
            raise
        own = None
    if own is not None:
        return own.name
    # Where two columns are named like labels, `label` is one of them: neither is overwritten.
    return "label" if "label" not in table.fields else "kspr_label"


def _probability_file(path: Path, records: Records) -> np.ndarray:
    """Return the probabilities in an npy file beside a source."""
    found = check_features(open_npy(path), str(path))
    if len(found) != len(records):
        raise InputError(f"{records.source} has {len(records)} rows but {path} has {len(found)}.")
    return found


def _published(path: Path, options: ReadOptions) -> PublishedData | None:
    # Before the formats: a published layout is a folder of images or CSV files, too.
    return next((dataset for dataset in PUBLISHED if dataset.matches(path, options)), None)


def _reader(path: Path) -> Callable[[Path, ReadOptions], Records]:
    check_exists(path)
    found = format_of(path)
    if found is not None and found.name in READERS:
        return READERS[found.name]
    # A pickle, an empty file or a known format under another suffix gets a message of its own.
    check_file(path, "a file that kspr can read")
    known = some_suffixes(tuple(known for known in FORMATS if known.is_source))
    raise InputError(
        f"{path} has no suffix that kspr knows. Use {known}, or name a folder of images."
    )


@dataclass(frozen=True)
class Known:
    """A published data set, and whether it is here."""

    name: str
    about: str
    root: Path | None
    """Folder in which it was found."""
    places: tuple[Path, ...]
    """Folders in which it is looked for."""
    files: tuple[tuple[str, str], ...]
    """Files that are expected in its folder, and what each is."""


@dataclass(frozen=True)
class Sources:
    """Everything that can be read."""

    formats: tuple[Format, ...]
    published: tuple[Known, ...]


def list_sources() -> Sources:
    """Return the formats, and the published data sets with the folders that are searched."""
    return Sources(
        formats=FORMATS,
        published=tuple(
            Known(
                dataset.name,
                dataset.about,
                root := find_root(dataset.name),
                tuple(where(dataset.name)),
                tuple((str(f), purpose) for f, purpose in dataset.files(root or Path())),
            )
            for dataset in PUBLISHED
        ),
    )
