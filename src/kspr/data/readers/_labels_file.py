"""Labels in a file of their own, one per row."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from kspr.data.readers._csv_faults import explain_encoding
from kspr.data.readers._csv_table import first_line, has_table_suffix, open_csv_table
from kspr.data.readers._guard import GZIP, check_file, readable
from kspr.data.readers._ipc_table import open_ipc_table
from kspr.data.readers._labels import (
    class_names,
    labels_from_array,
    labels_from_column,
    texts_to_labels,
)
from kspr.data.readers._npy import open_npy
from kspr.data.readers._parquet_table import open_parquet_table
from kspr.data.readers._roles import LABEL_NAMES, TRUTH_NAMES, choose_label, usual_field
from kspr.data.readers._table import Table
from kspr.data.readers._wording import listed
from kspr.errors import InputError

__all__ = ["check_rows", "labels_from_file", "read_label_file"]

_TEXT_SUFFIXES = (".txt", ".labels")
_ARROW_SUFFIXES = (".arrow", ".feather", ".ipc")


def labels_from_file(path: Path, column: str | None, count: int, source: Path) -> np.ndarray:
    """Return the labels in `path` for the `count` rows of `source`.

    `column` names the labels where the file is a table; one column needs no name.
    """
    labels = _read(path, column, "label", count)
    check_rows(labels, count, path, source)
    return labels


def read_label_file(
    path: Path, role: Literal["label", "truth"] = "label", column: str | None = None
) -> np.ndarray:
    """Return all labels in `path`, one per row.

    Without `column`, a table's column is found by its name; for the role ``"truth"``, names such
    as ``truth`` and ``true_label`` go before those of labels.
    """
    return _read(path, column, role, None)


def check_rows(labels: np.ndarray, count: int, labels_from: object, source: object) -> None:
    """Raise unless there is a label for each row."""
    if len(labels) != count:
        raise InputError(f"{source} has {count} rows but {labels_from} has {len(labels)} labels.")


def _read(path: Path, column: str | None, role: str, count: int | None) -> np.ndarray:
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return labels_from_array(open_npy(path), str(path))
    if suffix in _TEXT_SUFFIXES:
        return texts_to_labels(_lines(path), str(path))
    if has_table_suffix(path):
        return _from_csv(path, column, role, count)
    if suffix == ".parquet":
        return _from_table(open_parquet_table(path), column, role, path)
    if suffix in _ARROW_SUFFIXES:
        return _from_table(open_ipc_table(path), column, role, path)
    check_file(path, "a file of labels", b"PK\x03\x04")
    raise InputError(f"{path} is no file of labels: use npy, txt, csv, tsv, parquet or arrow.")


def _from_csv(path: Path, column: str | None, role: str, count: int | None) -> np.ndarray:
    header = first_line(path)
    if column is not None or any(mark in header for mark in (b",", b";", b"\t")):
        return _from_table(open_csv_table(path), column, role, path)
    lines = _lines(path)
    return texts_to_labels(lines[1:] if _is_header(lines, count) else lines, str(path))


def _is_header(lines: np.ndarray, count: int | None) -> bool:
    """Tell whether one column begins with its name: by the number of rows, else by the name."""
    if count is not None and len(lines) in (count, count + 1):
        return len(lines) == count + 1
    return str(lines[0]).strip().casefold() in (*LABEL_NAMES, *TRUTH_NAMES)


def _from_table(table: Table, column: str | None, role: str, path: Path) -> np.ndarray:
    names = class_names(table.metadata)
    field = usual_field(table.fields, TRUTH_NAMES) if role == "truth" and column is None else None
    field = field or choose_label(table.fields, column, str(path), names)
    if field is None and len(table.fields) == 1:
        field = next(iter(table.fields.values()))
    if field is None:
        raise InputError(
            f"{path} has no column that is named like labels, only {listed(table.fields)}. Say "
            "which with --label."
        )
    what = f"Label column {field.name!r} of {path}"
    if table.untyped:
        field = replace(field, type=pa.string())
    chunks = [array for (array,) in table.batches([field])]
    column = pa.chunked_array(chunks, field.type)
    return labels_from_column(column, what, names.get(field.name), table.untyped)


def _lines(path: Path) -> np.ndarray:
    head = check_file(path, "a file of labels", *GZIP)
    if b"\0" in head and not head.startswith(GZIP):
        raise InputError(f"{path} is not a text file with one label per line.")
    with readable(path, "a text file"), pa.input_stream(str(path)) as file:
        content = file.read()
    try:
        lines = content.decode("utf-8-sig").rstrip("\r\n").split("\n")
    except UnicodeDecodeError as error:
        raise explain_encoding(path, error) from error
    return np.strings.rstrip(np.array(lines, dtype=np.str_), "\r")
