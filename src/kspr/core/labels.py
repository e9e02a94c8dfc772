"""Labels of any type: their classes and codes, and whether two labels are the same.

One rule for the whole package, because labels and true labels often come from different files:

- Two numbers are the same label if their values are equal, whatever their types: ``1``, ``1.0``
  and ``True``.
- Two texts are the same label if they are equal, character by character: ``"1"`` and ``"1.0"``
  are two labels.
- A number and a text are the same label if the text reads as that number: a CSV file turns
  ``1`` into ``"1"``, a spreadsheet into ``"1.0"``, and ``True`` into ``"true"``.
- Categoricals, object arrays and tensors count by the values that they hold.
- A missing label (None, NaN, an infinite number) is refused.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from numbers import Number
from typing import Any

import numpy as np

from kspr.core.arrays import to_numpy
from kspr.errors import InputError

_TRUTH_VALUES = {"true": 1, "false": 0}
_BLOCK = 1 << 16
_PLAIN = "biufU"
"""Kinds of arrays whose entries ``==`` compares by the rule, if both have the same kind."""


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels as given, and as codes: ``classes[codes] == values``."""

    values: np.ndarray
    classes: np.ndarray
    """The distinct labels, sorted."""
    codes: np.ndarray
    """Position of each label in `classes`."""


def encode_labels(y: Any, argument: str = "y") -> Labels:
    """Return the labels `y` as codes of their sorted classes.

    >>> labels = encode_labels(["cat", "dog", "cat"])
    >>> labels.classes.tolist(), labels.codes.tolist()
    (['cat', 'dog'], [0, 1, 0])
    """
    values = as_label_array(y, argument)
    missing = missing_labels(values)
    if missing.size:
        raise InputError(
            f"{argument} has no label (NaN or inf, or None) in {name_rows(missing)}. Drop these "
            "rows first."
        )
    try:
        classes, codes = _coded(values)
    except TypeError as error:
        raise InputError(
            f"{argument} mixes types that cannot be ordered, such as numbers and text. Turn all "
            "labels into text with str()."
        ) from error
    return Labels(values, classes, codes)


def _coded(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct values, sorted, and which of them each value is."""
    if len(values) <= _BLOCK or values.dtype.kind not in _PLAIN:
        return np.unique(values, return_inverse=True)
    blocks = [slice(start, start + _BLOCK) for start in range(0, len(values), _BLOCK)]
    # Four bytes: codes are held until all rows are judged.
    codes = np.empty(len(values), dtype=np.int32)
    if values.dtype.kind == "U":
        # By hash: to compare texts takes NumPy ten times as long.
        number: dict[str, int] = {}
        for rows in blocks:
            codes[rows] = [number.setdefault(v, len(number)) for v in values[rows].tolist()]
        classes, place = np.unique(np.array(list(number), dtype=values.dtype), return_inverse=True)
        return classes, place.astype(np.int32)[codes]
    # In blocks: sorting all rows would take several times their memory.
    classes = np.unique(np.concatenate([np.unique(values[rows]) for rows in blocks]))
    for rows in blocks:
        codes[rows] = np.searchsorted(classes, values[rows])
    return classes, codes


def as_label_array(y: Any, argument: str = "y") -> np.ndarray:
    """Return `y` as a one-dimensional array; a single column counts as one."""
    values = to_numpy(y)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise InputError(
            f"{argument} should be a 1d array of labels, got an array of shape {values.shape}."
        )
    return values


def missing_labels(values: np.ndarray) -> np.ndarray:
    """Return the positions of the entries that are no labels: None, NaN, NaT, infinite."""
    if values.dtype.kind == "f":
        return np.flatnonzero(~np.isfinite(values))
    if values.dtype.kind in "mM":
        return np.flatnonzero(np.isnat(values))
    if values.dtype.kind == "O":
        return np.array([i for i, value in enumerate(values) if _is_missing(value)], dtype=np.intp)
    return np.empty(0, dtype=np.intp)


def _is_missing(value: Any) -> bool:
    try:
        # A missing value is the one thing that differs from itself.
        return value is None or bool(value != value) or value in (np.inf, -np.inf)
    except TypeError:  # pandas.NA has no truth value
        return True


def same_label(given: Any, true: Any) -> np.ndarray:
    """Return which entries of two columns of labels are the same label, as a mask.

    >>> same_label([0, 1, 2], [0.0, 1.0, 1.0]).tolist()
    [True, True, False]
    >>> same_label([0, 1, 2], ["0", "1.0", "two"]).tolist()
    [True, True, False]
    """
    return _same(as_label_array(given), as_label_array(true, "true"), "true")


def _same(first: np.ndarray, second: np.ndarray, argument: str) -> np.ndarray:
    if first.dtype.kind == second.dtype.kind and first.dtype.kind in _PLAIN:
        for values, name in ((first, "y"), (second, argument)):
            if missing_labels(values).size:
                encode_labels(values, name)  # raises
        return np.asarray(first == second)
    return _same_codes(encode_labels(first), encode_labels(second, argument))


def _same_codes(first: Labels, second: Labels) -> np.ndarray:
    # Keys are made for the distinct labels only: rows follow by their codes.
    number: dict[Hashable, int] = {}
    left, right = (
        np.array([number.setdefault(key, len(number)) for key in keys], dtype=np.int32)
        for keys in _keys(first.classes, second.classes)
    )
    return np.asarray(left[first.codes] == right[second.codes])


def truly_clean(given: Any, truth: Any, argument: str = "truth") -> np.ndarray:
    """Return which given labels are the true ones, as a mask.

    Other than `same_label` it refuses a truth that cannot be one of these labels: another number
    of rows, or words where the labels are numbers.
    """
    first, second = as_label_array(given), as_label_array(truth, argument)
    if len(first) != len(second):
        raise InputError(f"{argument} has {len(second)} labels but there are {len(first)} rows.")
    kinds = [_is_text(values) for values in (first, second)]
    if len(first) and kinds[0] != kinds[1]:
        words = first if kinds[0] else second
        distinct = encode_labels(words, "y" if kinds[0] else argument).classes
        if all(_number_in(str(word)) is None for word in distinct):
            here, there = ("text", "numbers") if kinds[0] else ("numbers", "text")
            raise InputError(
                f"The labels are {here} such as {first[:1].tolist()[0]!r}, but the true labels are "
                f"{there} such as {second[:1].tolist()[0]!r}. Pass both in one type."
            )
    return _same(first, second, argument)


def codes_in(classes: np.ndarray, labels: Any, argument: str) -> np.ndarray:
    """Return the position of each label in sorted `classes`; raise for one that is not there."""
    values = as_label_array(labels, argument)
    codes = places_in(classes, values)
    unknown = np.flatnonzero(codes < 0)
    if unknown.size:
        shown = ", ".join(map(str, classes[:5].tolist())) + (", ..." if len(classes) > 5 else "")
        raise InputError(
            f"{argument} must use the classes {shown}, got {values.tolist()[unknown[0]]!r} in row "
            f"{unknown[0]}."
        )
    return codes


def places_in(classes: np.ndarray, labels: Any) -> np.ndarray:
    """Return the position of each label in sorted `classes`; -1 for one that is not there."""
    values = as_label_array(labels, "labels")
    if not len(values):
        return np.empty(0, dtype=np.intp)
    if values.dtype.kind == classes.dtype.kind and values.dtype.kind in _PLAIN:
        # A label above all classes would index past the end.
        position = np.minimum(np.searchsorted(classes, values), len(classes) - 1)
        return np.asarray(np.where(classes[position] == values, position, -1))
    distinct = encode_labels(values, "labels")
    known, wanted = _keys(classes, distinct.classes)
    place: dict[Hashable, int] = {}
    for number, key in enumerate(known):
        # Beside numbers, the classes "1" and "1.0" have one key: the first counts.
        place.setdefault(key, number)
    position = np.array([place.get(key, -1) for key in wanted], dtype=np.intp)
    return np.asarray(position[distinct.codes])


def _keys(first: np.ndarray, second: np.ndarray) -> tuple[list[Hashable], list[Hashable]]:
    """Return a key for each value of two arrays; equal keys mean the same label."""
    # Text beside text stays text: "1" and "1.0" may be two classes.
    by_value = _is_text(first) != _is_text(second)
    return _keys_of(first, by_value=by_value), _keys_of(second, by_value=by_value)


def _keys_of(values: np.ndarray, *, by_value: bool) -> list[Hashable]:
    keys: list[Hashable] = []
    for value in _plain(values):
        if isinstance(value, str):
            number = _number_in(value) if by_value else None
            keys.append(("text", value) if number is None else number)
        else:
            # Python hashes 1, 1.0 and True alike. Dates and the like are known by their text.
            keys.append(value if isinstance(value, Number) else ("text", str(value)))
    return keys


def _plain(values: np.ndarray) -> Iterable[Any]:
    """Yield Python's own numbers and texts."""
    for value in values:
        # item() would turn a datetime64 in nanoseconds into a bare number.
        plain = value.item() if isinstance(value, np.generic) and value.dtype.kind != "M" else value
        yield plain.decode("utf-8", "replace") if isinstance(plain, bytes) else plain


def _is_text(values: np.ndarray) -> bool:
    # One entry tells: `encode_labels` refuses a column that mixes numbers and text.
    return any(isinstance(value, str) for value in _plain(values[:1]))


def _number_in(text: str) -> int | float | None:
    """Return the number that a text reads as; None without one."""
    word = text.strip().casefold()
    if word in _TRUTH_VALUES:
        return _TRUTH_VALUES[word]
    if "_" in word:  # Python reads 1_000 as a number; files do not mean one by it
        return None
    # int first: float would make large identifiers beyond 2**53 equal.
    for read in (int, float):
        try:
            number = read(word)
        except ValueError:
            continue
        return number if np.isfinite(number) else None
    return None


def name_rows(numbers: np.ndarray) -> str:
    """Name a few row numbers: ``row 7``, ``rows 3, 17 and 5 more``."""
    shown = ", ".join(map(str, numbers[:5]))
    more = f" and {len(numbers) - 5} more" if len(numbers) > 5 else ""
    return f"row{'s' * (len(numbers) > 1)} {shown}{more}"
