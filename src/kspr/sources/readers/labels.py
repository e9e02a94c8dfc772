"""Labels as NumPy arrays of text or whole numbers: from columns and arrays."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kspr.errors import InputError
from kspr.sources.readers.file_checks import rows

__all__ = [
    "check_rows",
    "class_names",
    "identifiers",
    "labels_from_array",
    "labels_from_column",
    "numbered",
    "texts_to_labels",
]

# "007" is a name, not the number 7; so is what double precision cannot hold.
_WHOLE_NUMBER = r"^-?(0|[1-9][0-9]{0,14})(\.0+)?$"
# "NA" and "None" are left out: both are names of classes in use.
_MISSING = ("", "nan", "NaN", "null", "NULL", "#N/A")


def class_names(metadata: Mapping[bytes, bytes]) -> dict[str, list[str]]:
    """Return the names that a Hugging Face data set has for the numbers in its label columns."""
    try:
        features = json.loads(metadata.get(b"huggingface", b"{}"))["info"]["features"]
        return {
            name: [str(class_name) for class_name in feature["names"]]
            for name, feature in features.items()
            if isinstance(feature, dict) and feature.get("_type") == "ClassLabel"
        }
    # Names are an extra: without them, the numbers are the labels.
    except (KeyError, TypeError, ValueError, AttributeError):
        return {}


def labels_from_column(
    column: pa.ChunkedArray, what: str, names: Sequence[str] | None = None, untyped: bool = False
) -> np.ndarray:
    """Return a column's labels; `what` names it in errors.

    With `untyped`, text that is a whole number in every row becomes numbers.
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if pa.types.is_nested(kind) or _is_binary(kind):
        raise InputError(f"{what} holds {kind}, not one label per row. Name another with --label.")
    _check_present(np.flatnonzero(pc.is_null(column).to_numpy()), what)
    if names and pa.types.is_integer(kind):
        return _named(column.to_numpy(), names, what)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return labels_from_array(column.to_numpy(), what)
    texts = _texts(column)
    return texts_to_labels(texts, what) if untyped else labels_from_array(texts, what)


def texts_to_labels(texts: np.ndarray, what: str) -> np.ndarray:
    """Return labels that were written as text: numbers if all of them are, else the text."""
    labels = labels_from_array(np.strings.strip(texts), what)
    whole = pc.all(pc.match_substring_regex(pa.array(labels), _WHOLE_NUMBER)).as_py()
    # Through floats, because "3.0" counts as whole; 15 digits are exact.
    return labels.astype(np.float64).astype(np.int64) if whole else labels


def labels_from_array(values: np.ndarray, what: str) -> np.ndarray:
    """Return an array's labels; `what` names it in errors."""
    # A column vector, as many tools save labels.
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise InputError(f"{what} must hold one label per row, got an array of {values.shape}.")
    if values.dtype.kind == "S":
        values = np.strings.decode(values, "utf-8")
    if values.dtype.kind == "f":
        _check_present(np.flatnonzero(~np.isfinite(values)), what)
        # Whole numbers become floats wherever a column once had a gap.
        whole = values.astype(np.int64)
        return whole if np.array_equal(whole, values) else np.asarray(values)
    if values.dtype.kind == "U":
        _check_present(np.flatnonzero(np.isin(np.strings.strip(values), _MISSING)), what)
    elif values.dtype.kind not in "iub":
        raise InputError(f"{what} must hold numbers or text, got {values.dtype}.")
    # A copy: `values` may be mapped from the user's file.
    return np.array(values)


def identifiers(column: pa.ChunkedArray, what: str) -> np.ndarray:
    """Return what identifies each row, as text."""
    if pa.types.is_nested(column.type) or _is_binary(column.type):
        raise InputError(f"{what} holds {column.type}. Name a column of text or numbers with --id.")
    if column.null_count:
        missing = np.flatnonzero(pc.is_null(column).to_numpy())
        raise InputError(f"{what} is empty in {rows(missing)}. Fill it in.")
    return _texts(column)


def numbered(count: int) -> np.ndarray:
    """Return the row numbers as text."""
    # astype(str) would take 21 characters, 84 bytes, for every number.
    return np.arange(count).astype(f"<U{len(str(max(0, count - 1)))}")


def _named(codes: np.ndarray, names: Sequence[str], what: str) -> np.ndarray:
    # In Hugging Face data sets, -1 stands for a missing label.
    _check_present(np.flatnonzero(codes == -1), what)
    outside = np.flatnonzero((codes < 0) | (codes >= len(names)))
    if outside.size:
        raise InputError(
            f"{what} has the value {codes[outside[0]]} in row {outside[0]}, but only "
            f"{len(names)} class names."
        )
    return np.asarray(np.asarray(names)[codes])


def _check_present(missing: np.ndarray, what: str) -> None:
    if missing.size:
        raise InputError(f"{what} has no label in {rows(missing)}. Fill them in or drop the rows.")


def _is_binary(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


def _texts(column: Any) -> np.ndarray:
    # Labels have few distinct values, and a Python object for each row would be slow.
    coded = column.cast(pa.large_string()).combine_chunks().dictionary_encode()
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.unify_dictionaries().combine_chunks()
    values = np.asarray(coded.dictionary.to_pylist(), dtype=np.str_)
    return values[coded.indices.to_numpy()] if len(values) else np.empty(0, "<U1")


def check_rows(labels: np.ndarray, count: int, labels_from: object, source: object) -> None:
    """Raise unless there is a label for each row."""
    if len(labels) != count:
        raise InputError(f"{source} has {count} rows but {labels_from} has {len(labels)} labels.")
