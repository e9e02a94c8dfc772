"""Numbers and labels as a reader sees them."""

import math
from typing import Any

__all__ = ["count", "level", "name", "number", "share", "shorten"]

_SPACE = "\u202f"  # narrow, and no line breaks at it


def count(value: int) -> str:
    """Return a whole number with its thousands apart.

    >>> count(1234567)
    '1,234,567'
    """
    return f"{value:,}"


def level(value: float | None) -> str:
    """Return a rate in percent, to three digits, two after the point; a dash for none."""
    if value is None or not math.isfinite(value):
        return "–"  # noqa: RUF001 - a dash is meant
    percent = 100 * value
    shown = round(float(f"{percent:.3g}"), 2) or float(f"{percent:.1g}")
    return f"{shown:g}{_SPACE}%"


def share(value: float) -> str:
    """Return a part of a whole in percent; nearly everything is not shown as everything."""
    text = f"{100 * value:.1f}"
    if value < 1 and text == "100.0":
        text = "> 99.9"
    return f"{text}{_SPACE}%"


def number(value: float) -> str:
    """Return a statistic to three digits after the point."""
    return f"{value:.3f}" if math.isfinite(value) else "–"  # noqa: RUF001 - a dash is meant


def name(label: Any) -> str:
    """Return a label as text; an empty one is said to be empty."""
    text = str(label)
    return text if text.strip() else "(empty)"


def shorten(label: Any, length: int) -> str:
    """Return a label that fits an axis: one line, printable, at most `length` characters.

    Names often differ only at the end, so it is the middle that goes.

    >>> shorten("category number 17", 8)
    'cate… 17'
    """
    text = " ".join(name(label).split())
    text = "".join(letter for letter in text if letter.isprintable())
    tail = (length - 1) // 2
    return text if len(text) <= length else f"{text[: length - 1 - tail]}…{text[-tail:]}"
