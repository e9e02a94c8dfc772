"""The one way to open a source: users' own files, tables in memory, published data sets."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kspr._files import read_json
from kspr.errors import InputError
from kspr.sources.formats import (
    FORMATS,
    address_of,
    format_of,
    is_pattern,
    list_files,
    some_suffixes,
)
from kspr.sources.joining import long_table, with_label_file
from kspr.sources.options import AS_FOUND, ReadOptions
from kspr.sources.pairs import pairs_of
from kspr.sources.parts import Part
from kspr.sources.published.cifar import CIFAR_10, CIFAR_100, Cifar
from kspr.sources.published.image_lists import (
    CLOTHING1M,
    ILSVRC12_VALIDATION,
    WEBVISION,
    WEBVISION_MINI,
    Clothing1M,
    Ilsvrc12Validation,
    WebVision,
)
from kspr.sources.readers.file_checks import check_exists, check_file, listed
from kspr.sources.readers.numpy_files import check_features, open_npy, read_npy, read_npz
from kspr.sources.readers.roles import choose_label
from kspr.sources.readers.table import Table
from kspr.sources.readers.tables import open_table_file, read_object, read_part, read_table
from kspr.sources.readers.values import as_single, class_names
from kspr.sources.records import Records, number_digests, read_image_folder, row_digests

READERS: Mapping[str, Callable[[Path, ReadOptions], Records]] = {
    "npy": read_npy,
    "npz": read_npz,
    "csv": read_table,
    # By its suffix a list of images is a CSV file; which of the two it is, its columns decide.
    "manifest": read_table,
    "parquet": read_table,
    "arrow": read_table,
    "jsonl": read_table,
    "huggingface": read_table,
    "imagefolder": read_image_folder,
}
"""The function that reads each format."""

PublishedData = Cifar | WebVision | Ilsvrc12Validation | Clothing1M
PUBLISHED: tuple[PublishedData, ...] = (
    CIFAR_10,
    CIFAR_100,
    WEBVISION_MINI,
    WEBVISION,
    ILSVRC12_VALIDATION,
    CLOTHING1M,
)

_ODD = np.uint64(0x9E3779B97F4A7C15)
"""Near 2**64 / golden ratio: a row of other numbers has a far away digest."""
_SHARED = {WEBVISION_MINI.name: WEBVISION.name}
"""Data sets that are a part of another one's files."""


def open_source(
    source: Path | str | Any, options: ReadOptions = AS_FOUND, *, unlabelled: bool = False
) -> Records:
    """Return the rows of a file, a folder, a published data set, or a table in memory.

    Rows without a label are an error, or are listed in ``Records.unlabelled`` if they are to be
    dropped. With `unlabelled`, rows need no labels: a folder of images without class folders is
    read too, and ``Records.label`` is None unless every row has a label. Raise `InputError` with
    one sentence if the source cannot be read. With ``options.labels_separator`` they are `Pairs`.
    """
    records = _read(source, options)
    if options.labels_separator is not None:
        return pairs_of(records, options)
    records = _with_its_labels(records, options, unlabelled)
    return _of_numbers(records) if options.target == "numbers" else records


def open_part(part: Part, options: ReadOptions = AS_FOUND, *, unlabelled: bool = False) -> Records:
    """Return the rows of a part of a source, as `open_source` returns those of all its parts.

    A part is picklable, and can be read by any process that reaches its file. Options that name a
    second file do not apply.
    """
    return _with_its_labels(read_part(part, options), options, unlabelled)


def _with_its_labels(records: Records, options: ReadOptions, unlabelled: bool) -> Records:
    """Return `records` if every row has a label, or need have none, or is to be dropped."""
    if records.no_labels is None:
        return records
    if records.unlabelled is None or options.missing != "drop":
        if unlabelled:
            return replace(records, label=None, unlabelled=None)
        raise InputError(records.no_labels)
    count, gaps = len(records), len(records.unlabelled)
    if gaps == count:
        raise InputError(f"None of the {count} rows of {records.source} has a label.")
    has, is_ = ("has", "is") if gaps == 1 else ("have", "are")
    note = f"{gaps:,} of {count:,} rows {has} no label and {is_} left out."
    return replace(records, notes=(*records.notes, note))


def _of_numbers(records: Records) -> Records:
    """Return records whose labels are numbers, as rows of which each is claimed to be right."""
    if records.label is None:
        return records
    if "label" not in records.columns or records.items is not None:
        raise InputError(
            "--target numbers goes with a table that has a column of them, so that people see what "
            f"they check; {records.source} has none, or holds items. For others, compute a score "
            "of doubt and pass it with --doubt."
        )
    rows = records.labelled()
    value = np.zeros(len(records))
    try:
        value[rows] = records.label[rows].astype(np.float64)
        truth = None if records.truth is None else records.truth.astype(np.float64)
    except ValueError as error:
        raise InputError(
            f"With --target numbers, labels and true labels must be numbers: {error}. Leave it out "
            "where they are classes."
        ) from error
    digest = row_digests(records) * _ODD + number_digests(value[:, None])
    right = None if truth is None else np.where(truth == value, "right", "wrong")
    label = np.full(len(records), "right")
    return replace(records, label=label, numbers=value, truth=right, digest=digest)


def _read(source: Path | str | Any, options: ReadOptions) -> Records:
    beside = probability_file(options)
    if beside is not None:
        return _with_probabilities(_read(source, replace(options, probabilities=None)), beside)
    records = _read_one(source, options)
    if options.probabilities is not None and records.probabilities is None:
        raise InputError(
            f"{source} has no columns or arrays with names, so --probabilities must be an npy file "
            f"with one line per row; there is no file {options.probabilities}."
        )
    if options.groups is not None and records.groups is None:
        beside_labels = "" if options.labels is None else f", and neither has {options.labels}"
        raise InputError(
            f"{source} has no column or array {options.groups!r} of groups{beside_labels}. Put "
            "them into a column of the file --labels."
        )
    return records


def _read_one(source: Path | str | Any, options: ReadOptions) -> Records:
    if not isinstance(source, (str, os.PathLike)):
        return _labelled(read_object(source, options), options)
    path = Path(source)
    _refuse_run(path)
    dataset = _published(path)
    if dataset is not None:
        return dataset.read(path, options)
    for name in ("split", "classes"):
        if getattr(options, name) is not None:
            raise InputError(f"{path} is no published data set; --{name} is for these only.")
    return _labelled(_reader(path)(path, options), options)


def _refuse_run(path: Path) -> None:
    """Raise if a source is the folder of a run, or of a training run, whose own source is meant."""
    for folder in (path, path / "selection", path / "frozen"):
        about = read_json(folder / "run.json")
        # Data of somebody else may have a file of this name, too.
        if isinstance(about, dict) and {"source", "reader", "command"} <= about.keys():
            raise InputError(
                f"{path} is a run of kspr; its source is {about['source']}. Name the data, not the "
                "run."
            )


def _labelled(records: Records, options: ReadOptions) -> Records:
    if options.labels is None or long_table(options) is not None:
        return records
    return with_label_file(records, options)


def open_table(path: Path, options: ReadOptions = AS_FOUND) -> Table | None:
    """Return a source's table, from which all columns can be read as they are stored.

    None for a source without columns: arrays, folders of images, published data sets.
    """
    return None if _published(path) is not None else open_table_file(path, options)


def label_column(table: Table, options: ReadOptions, where: str) -> str:
    """Return the name of the column that the labels were read from.

    Labels of a second file (``options.labels``) belong into the table's label column; where
    there is none, or more than one, into a new one.
    """
    names = class_names(table.metadata)
    try:
        column = choose_label(table.fields, None if options.labels else options.label, where, names)
    except InputError:
        if options.labels is None:
            raise
        column = None
    if column is not None:
        return column.name
    # Where two columns are named like labels, `label` is one of them: neither is overwritten.
    return "label" if "label" not in table.fields else "kspr_label"


def probability_file(options: ReadOptions) -> Path | None:
    """Return the file that ``options.probabilities`` names; None if it names columns or nothing."""
    named = None if options.probabilities is None else Path(options.probabilities)
    return named if named is not None and named.is_file() else None


def _with_probabilities(records: Records, path: Path) -> Records:
    """Return `records` with the probabilities in an npy file, in the order of the rows."""
    probabilities, _ = as_single(check_features(open_npy(path), str(path)), str(path))
    if len(probabilities) != len(records):
        raise InputError(
            f"{records.source} has {len(records)} rows but {path} has {len(probabilities)}."
        )
    who = f"{path} has no ids" if records.named else "neither has ids"
    note = (
        f"The probabilities of {path} were given to the rows of {records.source} in their order: "
        f"{who}."
    )
    return replace(records, probabilities=probabilities, notes=(*records.notes, note))


def _published(path: Path) -> PublishedData | None:
    # Before the formats: a published layout is a folder of images or CSV files, too.
    return next((dataset for dataset in PUBLISHED if dataset.matches(path)), None)


def _reader(path: Path) -> Callable[[Path, ReadOptions], Records]:
    if is_pattern(path) or address_of(path) is not None:
        _check_found(path)
    else:
        check_exists(path)
    known = format_of(path)
    if known is not None and known.name in READERS:
        return READERS[known.name]
    # A pickle, an empty file or a known format under another suffix gets a message of its own.
    check_file(path, "a file that kspr can read")
    usual = some_suffixes(tuple(known for known in FORMATS if known.is_source))
    raise InputError(
        f"{path} has no suffix that kspr knows. Use {usual}, or name a folder of images."
    )


def _check_found(path: Path) -> None:
    """Raise unless there are files of a table at an address, or that fit a pattern."""
    if not list_files(path):
        raise InputError(f"{address_of(path) or path} fits no file. Correct the name or pattern.")
    known = format_of(path)
    if known is None or known.name not in ("parquet", "arrow"):
        few = listed(list_files(path), 3)
        raise InputError(
            f"A pattern or an address stands for parquet or Arrow files, and {path} for {few}. "
            "Name one file, or a folder of this machine."
        )


def find_published(name: str) -> PublishedData:
    """Return the data set called `name`."""
    for dataset in PUBLISHED:
        if dataset.name == name:
            return dataset
    known = ", ".join(dataset.name for dataset in PUBLISHED)
    raise InputError(f"There is no data set {name!r}; there are {known}.")


def data_folders() -> list[Path]:
    """Return the folders that may hold data sets: ``$KSPR_DATA``, ``./data``, the user's cache."""
    parents = [Path("data"), Path.home() / ".cache" / "kspr"]
    # Set but empty counts as not set: Path("") would be the current folder.
    if os.environ.get("KSPR_DATA"):
        parents.insert(0, Path(os.environ["KSPR_DATA"]))
    return parents


def where(name: str) -> list[Path]:
    """Return the folders in which the data set `name` is looked for, the first wins.

    They are ``$KSPR_DATA/name``, ``./data/name`` and ``~/.cache/kspr/name``.
    """
    find_published(name)
    # The first 50 classes of WebVision lie in the folder of all of them.
    folders = [name, _SHARED[name]] if name in _SHARED else [name]
    return [parent / folder for parent in data_folders() for folder in folders]


def find_root(name: str) -> Path | None:
    """Return the first folder of `where` that holds the data set; None if none does."""
    dataset = find_published(name)
    return next((root for root in where(name) if dataset.present(root)), None)


def list_published() -> list[dict[str, Any]]:
    """Return the published data sets: names, the folders that are searched, and expected files."""
    listed = []
    for dataset in PUBLISHED:
        root = find_root(dataset.name)
        files = [(str(name), purpose) for name, purpose in dataset.files(root or Path())]
        about = {"name": dataset.name, "about": dataset.about, "root": root}
        listed.append({**about, "places": where(dataset.name), "files": files})
    return listed
