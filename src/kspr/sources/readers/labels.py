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
    "array_with_gaps",
    "check_rows",
    "class_names",
    "group_names",
    "identifiers",
    "label_fields",
    "labels_from_array",
    "labels_from_column",
    "labels_with_gaps",
    "no_label_in",
    "texts_of",
    "texts_to_labels",
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


def labels_from_column(
    column: pa.ChunkedArray, what: str, names: Sequence[str] | None = None, untyped: bool = False
) -> np.ndarray:
    """Return a column's labels like `labels_with_gaps`; raise if a row has none."""
    label, empty = labels_with_gaps(column, what, names, untyped)
    _check_present(empty, what)
    return label


def labels_with_gaps(
    column: pa.ChunkedArray, what: str, names: Sequence[str] | None = None, untyped: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return a column's labels, and the numbers of the rows that have none.

    The labels of these rows have no meaning. `what` names the column in errors. With `untyped`,
    text that is a whole number in every row becomes numbers.
    """
    kind = _kind_of(column)
    if pa.types.is_nested(kind) or _is_binary(kind):
        raise InputError(f"{what} holds {kind}, not one label per row. Name another with --label.")
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        return _text_labels(column, what, untyped)
    empty = _is_empty(column, names)
    if empty.any():
        column = column.filter(pa.array(~empty))
    values = column.cast(kind).to_numpy()
    if names and pa.types.is_integer(kind):
        return _spread(_named(values, names, what), empty)
    return _spread(labels_from_array(values, what), empty)


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
    if not there.any():
        return words[place], empty
    read = texts_to_labels if untyped else labels_from_array
    labels = read(words[there], what)
    # Any label, for those that have none.
    whole = np.full(len(words), labels[0], dtype=labels.dtype)
    whole[there] = labels
    return whole[place], empty


def array_with_gaps(values: np.ndarray, what: str) -> tuple[np.ndarray, np.ndarray]:
    """Return an array's labels, and the numbers of the rows that have none."""
    # A single number has no length; it is refused with the sentence for every other shape.
    values = labels_from_array(values, what) if values.ndim == 0 else values
    _check_text(values, what)
    empty = np.zeros(len(values), dtype=bool)
    if values.ndim == 1 and values.dtype.kind == "f":
        empty = np.isnan(values)
    elif values.ndim == 1 and values.dtype.kind == "U":
        empty = np.isin(np.strings.strip(values), _MISSING)
    return _spread(labels_from_array(values[~empty], what), empty)


def _spread(present: np.ndarray, empty: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    labels = np.zeros(len(empty), present.dtype)
    labels[~empty] = present
    return labels, np.flatnonzero(empty)


def _kind_of(column: pa.ChunkedArray) -> pa.DataType:
    """Return the type of a column's values, also where these are kept in a dictionary."""
    return column.type.value_type if pa.types.is_dictionary(column.type) else column.type


def _is_empty(column: pa.ChunkedArray, names: Sequence[str] | None) -> np.ndarray:
    """Return which cells hold no label: nothing, a word for nothing, or NaN."""
    kind = _kind_of(column)
    empty = pc.is_null(column, nan_is_null=pa.types.is_floating(kind))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        words = pa.array(_MISSING)
        bare = pc.utf8_trim_whitespace(column.cast(pa.large_string()))
        empty = pc.or_(empty, pc.is_in(bare, words.cast(pa.large_string())))
    elif names and pa.types.is_integer(kind):
        # In Hugging Face data sets, -1 stands for a missing label.
        empty = pc.or_(empty, pc.fill_null(pc.equal(column, -1), False))
    return np.asarray(empty.to_numpy(), dtype=bool)


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


def texts_to_labels(texts: np.ndarray, what: str) -> np.ndarray:
    """Return labels that were written as text: numbers or truth values if all are, else text."""
    labels = labels_from_array(np.strings.strip(texts), what)
    # As other formats store them: the same labels must be the same classes in every format.
    if np.isin(labels, _TRUTH_VALUES).all():
        return np.isin(labels, _TRUTH_VALUES[:3])
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
        values = _decoded(values, what)
    if values.dtype.kind == "f":
        _check_present(np.flatnonzero(~np.isfinite(values)), what)
        # Whole numbers become floats wherever a column once had a gap. Beyond 2**53 a float stands
        # for several whole numbers, and beyond 2**63 there is no integer to hold it.
        if np.abs(values).max(initial=0) > 2**53:
            return np.array(values)
        whole = values.astype(np.int64)
        return whole if np.array_equal(whole, values) else np.asarray(values)
    if values.dtype.kind == "U":
        _check_text(values, what)
        _check_present(np.flatnonzero(np.isin(np.strings.strip(values), _MISSING)), what)
    elif values.dtype.kind not in "iub":
        raise InputError(f"{what} must hold numbers or text, got {values.dtype}.")
    # A copy: `values` may be mapped from the user's file.
    return np.array(values)


def _check_text(values: np.ndarray, what: str) -> None:
    """Raise if an array of texts holds what is none: nothing could write it, or even show it."""
    if values.dtype.kind != "U" or not values.size:
        return
    plain = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("="), copy=False))
    code = plain.view(np.uint32)
    # Halves of characters, and numbers beyond the last of them.
    if ((code >> 11 == 0xD800 >> 11) | (code > 0x10FFFF)).any():
        raise InputError(
            f"{what} holds a text with half of a character, or with a number that is none. Save "
            "the texts again, for example as a CSV file in UTF-8."
        )


def _decoded(values: np.ndarray, what: str) -> np.ndarray:
    try:
        return np.strings.decode(values, "utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{what} holds labels that are not UTF-8, such as {error.object[:20]!r}. Save them as "
            "text, for example with np.strings.decode(labels, 'latin-1')."
        ) from error


def identifiers(column: pa.ChunkedArray, what: str) -> np.ndarray:
    """Return what identifies each row, as text."""
    if pa.types.is_nested(column.type) or _is_binary(column.type):
        raise InputError(f"{what} holds {column.type}. Name a column of text or numbers with --id.")
    if column.null_count:
        missing = np.flatnonzero(pc.is_null(column).to_numpy())
        raise InputError(f"{what} is empty in {name_rows(missing)}. Fill it in.")
    return texts_of(column)


def group_names(column: pa.ChunkedArray, what: str) -> np.ndarray:
    """Return which group each row belongs to, as text."""
    if pa.types.is_nested(column.type) or _is_binary(column.type):
        raise InputError(f"{what} holds {column.type}, not one group per row. Name another.")
    missing = np.flatnonzero(_is_empty(column, None))
    if missing.size:
        raise InputError(
            f"{what} is empty in {name_rows(missing)}. Give a row that belongs to no other a group "
            "of its own."
        )
    return texts_of(column)


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
        raise InputError(
            f"{what} has no label in {name_rows(missing)}. Fill them in or drop the rows."
        )


def _is_binary(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
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


def check_rows(labels: np.ndarray, count: int, labels_from: object, source: object) -> None:
    """Raise unless there is a label for each row."""
    if len(labels) != count:
        raise InputError(f"{source} has {count} rows but {labels_from} has {len(labels)} labels.")
