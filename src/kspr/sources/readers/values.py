"""Columns and arrays as values: labels as text or whole numbers, ids as text, features as numbers.

A CSV file does not say in which precision its numbers were computed, and selection needs no more
than single precision. So numbers of every other type become single precision when they are read:
the same numbers in every format, and so the same answer.
"""

import json
import tempfile
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kspr.core.labels import name_rows
from kspr.errors import InputError
from kspr.sources.readers.csv_tables import is_number
from kspr.sources.readers.file_checks import BLOCK_BYTES, IN_MEMORY, listed, map_bytes, room, shown
from kspr.sources.readers.roles import is_list, is_numeric
from kspr.sources.readers.table import Field, Table

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


def joined_lists(column: Any, what: str, separator: str) -> Any:
    """Return lists of labels as texts, with `separator` between; another column as it is."""
    kind = column.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return column
    texts = column.cast((pa.list_ if pa.types.is_list(kind) else pa.large_list)(pa.string()))
    for chunk in texts.chunks:
        known = pc.unique(chunk.flatten())
        if known.null_count or pc.any(pc.match_substring(known, separator)).as_py():
            raise InputError(
                f"{what} has an empty label, or one that holds {separator!r}. Choose a "
                "--labels-separator that stands in no label."
            )
    return pa.chunked_array([pc.binary_join(chunk, separator) for chunk in texts.chunks])


def joined_indicators(
    columns: Mapping[str, Any], where: str, separator: str, untyped: bool
) -> np.ndarray:
    """Return the names of the columns that are 1 in each row, with `separator` between."""
    parts = []
    for name, column in columns.items():
        what = f"Label column {name!r} of {where}"
        values = whole_labels(column, what, untyped=untyped)
        if not np.isin(values, (0, 1)).all() or (untyped and values.dtype.kind == "b"):
            raise InputError(
                f"{what} must hold 0 and 1, whether a row has this label. Where cells hold names "
                "of labels, name one column with --label."
            )
        parts.append(np.where(values.astype(bool), name, ""))
    return np.array([separator.join(filter(None, row)) for row in zip(*parts, strict=True)])


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
        several = ", or judge several labels a row: --labels-separator '|'"
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


_EXACT = (np.dtype(np.float32), np.dtype(np.float16))
"""Types whose numbers single precision holds; half precision is widened where it is used."""
_LOST = 1e-3
"""Rounding error, as a share of a column's range, above which rows may no longer differ."""


class SingleRows:
    """Blocks of rows in single precision, one array in the end; remembers what is lost by that.

    In memory while they are few, then in a temporary file, which has no name, and is gone when
    nothing refers to it any more. `names` are those of the columns, `what` that of all in errors;
    `n_rows` are as many as are expected, where that is known.
    """

    def __init__(
        self, width: int, n_rows: int | None = None, what: str = "", names: Sequence[str] = ()
    ) -> None:
        self._width, self._expected = width, n_rows or 0
        self._what, self._names = what, names
        self._low, self._high, self._error = np.inf, -np.inf, 0.0
        self._rows = 0
        self._blocks: list[np.ndarray] = []
        self._file: IO[bytes] | None = None

    def append(self, block: np.ndarray) -> None:
        """Add a block of shape ``(rows, width)``; raise if a number is too large."""
        # A copy: the block may lie in a file, or in Arrow's memory.
        single = block.astype(np.float32, "C") if block.dtype in _EXACT else self._narrowed(block)
        self._blocks.append(single)
        self._rows += len(block)
        rows = max(self._rows, self._expected)
        if self._file is None and rows * self._width * 4 > IN_MEMORY:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed when it is mapped
        if self._file is not None:
            with room():
                while self._blocks:
                    self._file.write(self._blocks.pop(0).data)

    def _narrowed(self, block: np.ndarray) -> np.ndarray:
        # Through double precision, as a number in a text file: each is rounded the same way.
        wide = block.astype(np.float64, copy=False)
        with np.errstate(over="ignore", invalid="ignore"):
            single = wide.astype(np.float32, "C")
            error = np.fmax.reduce(np.abs(wide - single), axis=0, initial=0.0)
        lost = np.isinf(single) & np.isfinite(wide)
        if lost.any():
            row, column = np.argwhere(lost)[0]
            name = f"Feature column {self._names[column]!r} of " if self._names else ""
            raise InputError(
                f"{name}{self._what} must lie within 3.4e38, got {wide[row, column]:.3g} in row "
                f"{self._rows + row}. Scale the column, or take its logarithm."
            )
        self._error = np.fmax(self._error, error)
        self._low = np.fmin(self._low, np.fmin.reduce(wide, axis=0))
        self._high = np.fmax(self._high, np.fmax.reduce(wide, axis=0))
        return single

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence about columns whose rows differ by less than single precision can show."""
        spread = np.asarray(self._high) - np.asarray(self._low)
        blurred = np.flatnonzero((self._error > _LOST * spread) & (spread > 0))
        if not blurred.size:
            return ()
        columns = [self._names[i] if self._names else str(i) for i in blurred.tolist()]
        return (
            f"{self._what}: the values of {listed(columns, 3)} lie too close together for single "
            "precision. Subtract their mean and save the file again.",
        )

    def result(self) -> np.ndarray:
        """Return all rows: an array, or a memory map of the temporary file."""
        if self._file is not None:
            return map_bytes(self._file, np.dtype(np.float32), (self._rows, self._width))
        array, start = np.empty((self._rows, self._width), np.float32), 0
        while self._blocks:
            # One after the other, so that the rows are never held twice.
            block = self._blocks.pop(0)
            array[start : start + len(block)] = block
            start += len(block)
        return array


def as_single(array: np.ndarray, what: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return an array of numbers in single or half precision, and notes on what was lost.

    An array in either of them stays what it is, for example a memory map.
    """
    if array.dtype in _EXACT:
        return array, ()
    rows = SingleRows(array.shape[1], len(array), what)
    step = max(1, BLOCK_BYTES // max(1, array.shape[1] * array.dtype.itemsize))
    for start in range(0, len(array), step):
        rows.append(array[start : start + step])
    return rows.result(), rows.notes


class FeatureBuilder:
    """Collects blocks of the feature columns into one array in single precision."""

    def __init__(self, fields: Sequence[Field], where: str, n_rows: int | None) -> None:
        self._lists = is_list(fields[0].type)
        self._dtype = np.result_type(*(_dtype(field.type) for field in fields))
        names = () if self._lists else [field.name for field in fields]
        self._about = (n_rows, where if names else f"Feature column {fields[0].name!r}", names)
        self._what = f"Feature column {fields[0].name!r} of {where}"
        self._rows: SingleRows | None = None
        self._width = len(fields)
        self._row = 0

    def append(self, arrays: Sequence[pa.Array]) -> None:
        """Add one block: the arrays of the feature columns."""
        if not len(arrays[0]):
            return
        block = self._flat(arrays[0]) if self._lists else self._stacked(arrays)
        if self._rows is None:
            self._rows = SingleRows(block.shape[1], *self._about)
        self._rows.append(block)
        self._row += len(block)

    def result(self) -> np.ndarray:
        """Return all rows."""
        return self._rows.result() if self._rows else np.empty((0, 0), np.float32)

    @property
    def notes(self) -> tuple[str, ...]:
        """What single precision loses of the columns."""
        return self._rows.notes if self._rows else ()

    def _stacked(self, arrays: Sequence[pa.Array]) -> np.ndarray:
        block = np.empty((len(arrays[0]), len(arrays)), self._dtype)
        # The rows of `block.T` are views of the columns of `block`.
        for column, array in zip(block.T, arrays, strict=True):
            column[:] = _numbers(array)
        return block

    def _flat(self, array: pa.Array) -> np.ndarray:
        # A missing list counts as empty, and is refused below with its row.
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        if self._rows is None:
            self._width = int(lengths[0])
        odd = np.flatnonzero(lengths != self._width)
        if odd.size or not self._width:
            row = int(odd[0]) if odd.size else 0
            raise InputError(
                f"{self._what} must hold lists of one length: row 0 has {self._width} values, row "
                f"{self._row + row} has {lengths[row]}. Drop or mend such rows."
            )
        # Not `.values`, which ignores where a slice begins.
        return _numbers(array.flatten()).reshape(len(array), self._width)


def check_numeric(table: Table, fields: Sequence[Field], where: str) -> None:
    """Raise if a column is neither of numbers nor of lists of numbers; name one of its values."""
    for field in fields:
        if is_numeric(field.type) or (len(fields) == 1 and is_list(field.type)):
            continue
        value = _first_value(table, field)
        raise InputError(
            f"Feature column {field.name!r} of {where} must hold numbers, got {shown(value)} "
            f"({field.type}). Name other columns with --features."
        )


def _first_value(table: Table, field: Field) -> Any:
    """Return the first value that is no number, or just the first."""
    cells = (cell for (array,) in table.batches([field]) for cell in array if cell.is_valid)
    values = (cell.as_py() for cell in cells)
    first = next(values, None)
    return next((v for v in chain([first], values) if not is_number(str(v))), first)


def _dtype(kind: pa.DataType) -> np.dtype[Any]:
    """Return a precision that holds the numbers of a column exactly, where there is one."""
    kind = kind.value_type if is_list(kind) else kind
    if pa.types.is_boolean(kind):
        return np.dtype(np.float32)
    exact = kind.bit_width <= (32 if pa.types.is_floating(kind) else 16)
    return np.dtype(np.float32 if exact else np.float64)


def _numbers(array: pa.Array) -> np.ndarray:
    """Return numbers, NaN where there are none."""
    # to_numpy gives NaN for a missing number, but Python objects for booleans with gaps and for
    # decimals.
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    elif pa.types.is_decimal(array.type):
        array = array.cast(pa.float64())
    return np.asarray(array.to_numpy(zero_copy_only=False))
