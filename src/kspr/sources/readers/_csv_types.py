"""The types of a CSV file's columns, found from the texts of its cells."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kspr.errors import InputError
from kspr.sources.readers.file_checks import shown

__all__ = ["LISTS", "declared", "has_decimal_commas", "is_number", "parse_lists", "plain_types"]

LISTS = pa.list_(pa.float64())
"""The type of a column of lists written as text."""

# Spelled otherwise (007, +1, 1., -0), a number would not come back as it was written.
_WHOLE = r"^(0|-?[1-9][0-9]{0,17})$"
_DECIMAL = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_COMMA_NUMBER = r"^\s*[+-]?[0-9]*(,[0-9]+)?([eE][+-]?[0-9]+)?\s*$"
# No thousands stand behind a zero, and none have fewer or more than three digits.
_NOT_THOUSANDS = r"^\s*[+-]?(0*,|[0-9]{4,},|[0-9]+,([0-9]+[eE]|([0-9]{1,2}|[0-9]{4,})\s*$))"
# Zeros in front, the point and the exponent: none of them is a digit to be kept.
_INSIGNIFICANT = r"^-?0*\.?0*|\.|[eE].*$"
_EXACT_DIGITS = 15
"""Digits that double precision can always give back."""


def is_number(text: str) -> bool:
    """Return whether a text is a number, written with a decimal point."""
    try:
        float(text)
    except ValueError:
        return False
    # float() takes these words, but they may as well be names of columns.
    return text.strip().lower().lstrip("+-") not in {"nan", "inf", "infinity"}


def has_decimal_commas(first: pa.RecordBatch, path: Path) -> bool:
    """Return whether commas within numbers are decimal marks; raise if they may be either.

    ``1,234`` may mean two numbers. ``0,5``, ``1,25`` and ``1,2345`` mean one.
    """
    texts = [column for column in first.columns if pa.types.is_string(column.type)]
    with_commas = [column for column in texts if _are_numbers_with_commas(column)]
    if not with_commas:
        return False
    if any(pc.any(pc.match_substring_regex(c, _NOT_THOUSANDS)).as_py() for c in with_commas):
        return True
    value = next(value.as_py() for value in with_commas[0] if "," in (value.as_py() or ""))
    raise InputError(
        f"{path} holds {shown(value)}: a decimal comma, or one between thousands. Pass --decimal "
        "',' for the first; for the second, take the commas out."
    )


def _are_numbers_with_commas(column: pa.Array) -> bool:
    numbers = pc.match_substring_regex(column, _COMMA_NUMBER)
    return _all(numbers) and bool(pc.any(pc.match_substring(column, ",")).as_py())


def declared(column: pa.Array, decimal: str) -> pa.DataType:
    """Return the type that a column is read as, judged by its first block."""
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_boolean(kind):
        return kind
    if pa.types.is_string(kind):
        if _looks_like_lists(column):
            return LISTS
        if _mostly_numbers(column, decimal):
            # A few words among numbers are an error to report, by row; as text, the column would
            # silently be no feature.
            return pa.float64()
    return pa.string()


def _looks_like_lists(column: pa.Array) -> bool:
    ends = pc.match_substring_regex(column, r"^\s*\[[^\[\]]*\d[^\[\]]*\]\s*$")
    # None for a column without any value, which is no column of lists.
    return pc.all(ends).as_py() is True


def _mostly_numbers(column: pa.Array, decimal: str) -> bool:
    sample = [value.replace(decimal, ".") for value in column.slice(0, 1000).to_pylist() if value]
    return bool(sample) and sum(map(is_number, sample)) > len(sample) / 2


def plain_types(batches: Iterator[pa.RecordBatch], texts: pa.Schema) -> list[pa.DataType]:
    """Return the type that holds each column without loss: whole or decimal numbers, or text."""
    found = ["empty"] * len(texts)
    for batch in batches:
        found = [_join(kind, column) for kind, column in zip(found, batch.columns, strict=True)]
    types = {"whole": pa.int64(), "long": pa.int64(), "decimal": pa.float64()}
    return [types.get(kind, pa.string()) for kind in found]


def _join(kind: str, column: pa.Array) -> str:
    """Return what a column holds so far: empty, whole, long (many digits), decimal or text."""
    if kind == "text" or column.null_count == len(column):
        return kind
    if kind != "decimal" and _all(pc.match_substring_regex(column, _WHOLE)):
        return "whole" if kind != "long" and _all(_few_digits(column)) else "long"
    # Whole numbers of many digits cannot become doubles for the sake of a fraction further down.
    exact = kind != "long" and _all(pc.match_substring_regex(column, _DECIMAL))
    return "decimal" if exact and _gives_back(column) else "text"


def _few_digits(column: pa.Array) -> Any:
    digits = pc.utf8_length(pc.replace_substring_regex(column, _INSIGNIFICANT, ""))
    return pc.less_equal(digits, _EXACT_DIGITS)


def _gives_back(column: pa.Array) -> bool:
    number = column.cast(pa.float64())
    # 16 and 17 digits may be exact too; writing them back shows it.
    same = pc.equal(number.cast(pa.string()), column)
    return _all(pc.and_(pc.is_finite(number), pc.or_(_few_digits(column), same)))


def _all(mask: Any) -> bool:
    # None where every value is missing: nothing speaks against the type.
    return pc.all(mask).as_py() is not False


def _can_be_cast(word: Any) -> bool:
    try:
        word.cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def parse_lists(column: pa.Array, name: str, path: Path) -> pa.Array:
    """Return lists of numbers written as ``[0.1, 0.2]`` or ``[0.1 0.2]``."""
    inside = pc.utf8_trim(column, " \t\r\n[]")
    words = pc.split_pattern_regex(inside, r"[\s,;]+")
    try:
        values = words.flatten().cast(pa.float64())
    except pa.ArrowInvalid as error:
        bad = next((word for word in words.flatten() if not _can_be_cast(word)), None)
        raise InputError(
            f"Feature column {name!r} of {path} holds {shown(str(bad))} within a list. Write the "
            "numbers in full."
        ) from error
    return pa.ListArray.from_arrays(words.offsets, values)
