"""Labels as text or whole numbers, from columns and arrays; ids and groups as text."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kspr.core.labels import name_rows
from kspr.errors import InputError

__all__ = [
    "class_names",
    "group_names",
    "identifiers",
    "label_fields",
    "labels_with_gaps",
    "no_label_in",
    "texts_of",
    "whole_labels",
]

# "007" is a name, not the number 7; so is what double precision cannot hold.
_WHOLE_NUMBER = r"^-?(0|[1-9][0-9]{0,14})(\.0+)?$"
_LONGEST_LABEL = 1_000
"""Characters of a text that is no label where it takes much memory: its room is that of each row.
"""
_WIDE = 256 << 20
"""Bytes of an array of texts above which they are kept as objects, each as long as it is."""
_PART = 1 << 18
"""Rows whose texts are taken from Arrow at a time."""
_TRUTH_VALUES = ("true", "True", "TRUE", "false", "False", "FALSE")
# "NA" and "None" are left out: both are names of classes in use.
_MISSING = ("", "nan", "NaN", "null", "NULL", "#N/A")


def class_names(metadata: Mapping[bytes, bytes]) -> dict[str, list[str]]:
    """Return the names that a Hugging Face data set has for the numbers in its label columns."""
    try:
        features = json.loads(metadata.get(b"huggingface", b"{}"))["info"]["features"]
        return {
            name: [str(class_name) for class_name in feature["names"]]
            for name, feature in features.items()
            if isinstance(feature, dict)
            and feature.get("_type") == "ClassLabel"
            and isinstance(feature.get("names"), list)
            and all(isinstance(class_name, str | int) for class_name in feature["names"])
        }
    # Names are an extra: without them, the numbers are the labels.
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return {}


def whole_labels(
    values: Any, what: str, names: Sequence[str] | None = None, untyped: bool = False
) -> np.ndarray:
    """Return labels like `labels_with_gaps`; raise if a row has none."""
    label, empty = labels_with_gaps(values, what, names, untyped)
    if empty.size:
        raise InputError(
            f"{what} has no label in {name_rows(empty)}. Fill them in or drop the rows."
        )
    return label


def labels_with_gaps(
    values: Any, what: str, names: Sequence[str] | None = None, untyped: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels in an array or a column, and the numbers of the rows that have none.

    The labels of these rows have no meaning. `what` names the column in errors. With `untyped`,
    text that is a whole number in every row becomes numbers.
    """
    column = _column_of(values, what) if isinstance(values, np.ndarray) else values
    _check_simple(column, what, "label")
    kind = _kind_of(column)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        return _text_labels(column, what, untyped)
    there = pc.is_valid(column)
    if pa.types.is_floating(kind):
        there = pc.fill_null(pc.is_finite(column), False)
    elif names and pa.types.is_integer(kind):
        # In Hugging Face data sets, -1 stands for a missing label.
        there = pc.fill_null(pc.not_equal(column, -1), False)
    there = np.asarray(there.to_numpy(), dtype=bool)
    if not there.all():
        column = column.filter(pa.array(there))
    numbers = _whole_numbers(column.cast(kind).to_numpy())
    if names and pa.types.is_integer(kind):
        outside = np.flatnonzero((numbers < 0) | (numbers >= len(names)))
        if outside.size:
            row = np.flatnonzero(there)[outside[0]]
            raise InputError(
                f"{what} has the value {numbers[outside[0]]} in row {row}, but only {len(names)} "
                "class names."
            )
        numbers = np.asarray(names)[numbers]
    labels = np.zeros(len(there), numbers.dtype)
    labels[there] = numbers
    return labels, np.flatnonzero(~there)


def _column_of(values: np.ndarray, what: str) -> pa.ChunkedArray:
    # A column vector, as many tools save labels.
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise InputError(f"{what} must hold one label per row, got an array of {values.shape}.")
    if values.dtype.kind not in "iubfSU" or values.dtype == np.longdouble:
        raise InputError(f"{what} must hold numbers or text, got {values.dtype}.")
    try:
        if values.dtype.kind == "S":
            values = np.strings.decode(values, "utf-8")
        # In the order of bytes of this machine, and not in steps.
        plain = np.ascontiguousarray(values, values.dtype.newbyteorder("="))
        return pa.chunked_array([pa.array(plain)])
    # Bytes that are no text, halves of characters, and numbers beyond the last of them.
    except (pa.ArrowInvalid, UnicodeError, ValueError, SystemError) as error:
        raise InputError(
            f"{what} holds bytes that are not UTF-8, or half of a character. Save the texts again, "
            "for example with np.strings.decode(labels, 'latin-1')."
        ) from error


def _whole_numbers(values: np.ndarray) -> np.ndarray:
    """Return numbers as whole ones if all are: they become floats wherever a column had a gap."""
    # Beyond 2**53 a float stands for several whole numbers, and beyond 2**63 for none.
    if values.dtype.kind != "f" or np.abs(values).max(initial=0) > 2**53:
        return values
    whole = values.astype(np.int64)
    return whole if np.array_equal(whole, values) else values


def _text_labels(
    column: pa.ChunkedArray, what: str, untyped: bool
) -> tuple[np.ndarray, np.ndarray]:
    texts, place = _distinct_texts(column)
    longest = max(map(len, texts), default=0)
    if longest > _LONGEST_LABEL and 4 * longest * len(place) > _WIDE:
        raise InputError(
            f"{what} holds a text of {longest:,} characters, not labels. Name another."
        )
    # The last one is that of rows without a text, which have the place -1.
    words = np.array([*texts, ""], dtype=np.str_)
    there = ~np.isin(np.strings.strip(words), _MISSING)
    empty = np.flatnonzero(~there[place])
    if untyped and there.any():
        labels = _as_written(words[there])
        # Any label, for those that have none.
        words = np.full(len(words), labels[0], dtype=labels.dtype)
        words[there] = labels
    return words[place], empty


def _as_written(texts: np.ndarray) -> np.ndarray:
    """Return labels that were written as text: numbers or truth values if all are, else text."""
    labels = np.strings.strip(texts)
    # As other formats store them: the same labels must be the same classes in every format.
    if np.isin(labels, _TRUTH_VALUES).all():
        return np.isin(labels, _TRUTH_VALUES[:3])
    whole = pc.all(pc.match_substring_regex(pa.array(labels), _WHOLE_NUMBER)).as_py()
    # Through floats, because "3.0" counts as whole; 15 digits are exact.
    return labels.astype(np.float64).astype(np.int64) if whole else labels


def label_fields(label: np.ndarray, empty: np.ndarray, what: str) -> dict[str, Any]:
    """Return the fields of `Records` that are about labels; the rows `empty` have none."""
    if not empty.size:
        return {"label": label}
    return {"label": label, "no_labels": no_label_in(empty, what), "unlabelled": empty}


def no_label_in(missing: np.ndarray, what: str) -> str:
    """Return the sentence for rows without a label, with the way to leave them out."""
    return (
        f"{what} has no label in {name_rows(missing)}. Fill them in, or leave these rows out with "
        "--missing drop."
    )


def identifiers(column: pa.ChunkedArray, what: str) -> np.ndarray:
    """Return what identifies each row, as text."""
    _check_simple(column, what, "id")
    if column.null_count:
        missing = np.flatnonzero(pc.is_null(column).to_numpy())
        raise InputError(f"{what} is empty in {name_rows(missing)}. Fill it in.")
    return texts_of(column)


def group_names(column: pa.ChunkedArray, what: str) -> np.ndarray:
    """Return which group each row belongs to, as text."""
    _check_simple(column, what, "groups")
    _, missing = labels_with_gaps(column, what)
    if missing.size:
        raise InputError(
            f"{what} is empty in {name_rows(missing)}. Give a row that belongs to no other a group "
            "of its own."
        )
    return texts_of(column)


def _kind_of(column: pa.ChunkedArray) -> pa.DataType:
    """Return the type of a column's values, also where these are kept in a dictionary."""
    return column.type.value_type if pa.types.is_dictionary(column.type) else column.type


def _check_simple(column: pa.ChunkedArray, what: str, of: str) -> None:
    """Raise if a column holds lists, structs or bytes."""
    kind = _kind_of(column)
    binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    if pa.types.is_nested(kind) or binary or pa.types.is_fixed_size_binary(kind):
        several = ", or judge several labels a row with kspr.MultiLabelSelector in Python"
        raise InputError(
            f"{what} holds {kind}, not one value per row. Name another with --{of}"
            f"{several if of == 'label' else ''}."
        )


def texts_of(column: Any) -> np.ndarray:
    """Return a column of any simple type as text: of fixed width, or objects if one is long."""
    column = column.cast(pa.large_string())
    longest = pc.max(pc.utf8_length(column)).as_py() or 0
    # In an array of fixed width, one long text takes its room in every row.
    fixed = 4 * longest * len(column) <= _WIDE
    texts = np.empty(len(column), f"<U{longest}" if fixed else object)
    # A part at a time: of ids, every row has a Python object.
    for start in range(0, len(column), _PART):
        distinct, place = _distinct_texts(column.slice(start, _PART))
        texts[start : start + _PART] = np.array(distinct, texts.dtype)[place]
    return texts


def _distinct_texts(column: Any) -> tuple[list[str], np.ndarray]:
    """Return the different texts of a column, and which of them each row has: -1 for none.

    Labels have few distinct values, and a Python object for each row would be slow.
    """
    coded = column
    if not pa.types.is_dictionary(column.type):
        coded = column.cast(pa.large_string()).dictionary_encode()
    if isinstance(coded, pa.ChunkedArray):
        # With one chunk, there is one dictionary.
        coded = coded.combine_chunks() if coded.num_chunks != 1 else coded.chunk(0)
    place = coded.indices.fill_null(-1).to_numpy()
    # A dictionary of others may hold nothing as one of its values.
    return coded.dictionary.cast(pa.large_string()).fill_null("").to_pylist(), place
