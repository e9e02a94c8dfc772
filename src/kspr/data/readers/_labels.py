"""Labels as NumPy arrays: names where there are names, whole numbers where there are numbers."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kspr.data.readers._wording import rows
from kspr.errors import InputError

__all__ = [
    "class_names",
    "identifiers",
    "labels_from_array",
    "labels_from_column",
    "numbered",
    "texts_to_labels",
]

# "007" is a name, not the number 7; what double precision cannot hold is one, too.
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
    return labels.astype(np.float64).astype(np.int64) if whole else labels


def labels_from_array(values: np.ndarray, what: str) -> np.ndarray:
    """Return an array's labels; `what` names it in errors."""
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise InputError(f"{what} must hold one label per row, got an array of {values.shape}.")
    if values.dtype.kind == "S":
        values = np.strings.decode(values, "utf-8")
    if values.dtype.kind == "f":
        _check_present(np.flatnonzero(~np.isfinite(values)), what)
        whole = values.astype(np.int64)
        return whole if np.array_equal(whole, values) else np.asarray(values)
    if values.dtype.kind == "U":
        _check_present(np.flatnonzero(np.isin(np.strings.strip(values), _MISSING)), what)
    elif values.dtype.kind not in "iub":
        raise InputError(f"{what} must hold numbers or text, got {values.dtype}.")
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
    return np.arange(count).astype(f"<U{len(str(max(0, count - 1)))}")


def _named(codes: np.ndarray, names: Sequence[str], what: str) -> np.ndarray:
    # -1 is how Hugging Face data sets say that a row has no label.
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
    # Distinct values are few where labels are, and Python objects are dear.
    coded = column.cast(pa.large_string()).combine_chunks().dictionary_encode()
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.unify_dictionaries().combine_chunks()
    values = np.asarray(coded.dictionary.to_pylist(), dtype=np.str_)
    return values[coded.indices.to_numpy()] if len(values) else np.empty(0, "<U1")
