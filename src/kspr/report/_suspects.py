"""All suspects of a page: two piles, the matrix of labels, and the data that cards are made of."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from kspr._text import shorten
from kspr.core.coded import class_sizes, row_ranges, rows_of, stored_of
from kspr.core.labels import stored_codes
from kspr.report._cards import Card, Contents, judge, suspicion_of
from kspr.report._words import name
from kspr.selectors.options import DOUBTING
from kspr.selectors.selection import Selection

__all__ = [
    "Matrix",
    "SuspectList",
    "as_script",
    "count_suggestions",
    "matrix",
    "probably_wrong",
    "suspect_list",
    "worst_suspects",
]

MAX_CLASSES = 20
"""Largest number of classes along a side of the matrix; more could not be read."""
MAX_LISTED = 250_000
"""Largest number of suspects in the list: with more, a browser would be slow."""
AT_ONCE = 28
"""Cards that are part of the page itself; the others are made when they are asked for."""


def probably_wrong(selection: Selection, rows: Any) -> np.ndarray:
    """Return which rows are in the first of the two piles; the others are unsure.

    With a doubt, it decides: above one half. Otherwise a label is probably wrong where another one
    fits better.
    """
    if selection.control in DOUBTING:
        return rows_of(selection, "statistic", rows) > 0.5
    label, suggested = (stored_codes(selection, name) for name in ("label", "suggested_label"))
    return np.asarray(suggested[rows] != label[rows])


@dataclass(frozen=True)
class Matrix:
    """Suspects by given label (rows) and suggested label (columns)."""

    names: list[str]
    short: list[str]
    counts: list[list[int]]
    shades: list[list[float]]
    """How dark each cell is, from 0 to 1."""


def matrix(selection: Selection) -> Matrix:
    """Return the suspects by given and suggested label, for the classes most concerned."""
    counts, shown = count_suggestions(selection)
    names = [name(label) for label in selection.classes[shown].tolist()]
    # The root makes small counts visible beside large ones.
    shades = np.sqrt(counts / max(int(counts.max(initial=0)), 1))
    short = [shorten(label, 14) for label in names]
    return Matrix(names, short, counts.tolist(), np.round(shades, 2).tolist())


def count_suggestions(selection: Selection) -> tuple[np.ndarray, np.ndarray]:
    """Return counts of suspects by given and suggested label, and the classes that are shown."""
    given, suggested = (stored_codes(selection, name) for name in ("label", "suggested_label"))
    n_classes, suspect = len(selection.classes), ~selection.clean_mask
    other = suspect & (given != suggested)
    n_given = class_sizes(given, n_classes, suspect)
    n_moved = class_sizes(given, n_classes, other) + class_sizes(suggested, n_classes, other)
    # Classes with most suggestions first; those with most suspects among equals.
    shown = np.sort(np.lexsort((-n_given, -n_moved))[:MAX_CLASSES])
    position = np.full(n_classes, -1)
    position[shown] = np.arange(len(shown))
    table = np.zeros(len(shown) ** 2, dtype=np.int64)
    for part in row_ranges(len(suspect)):
        pair = [position[codes[part][suspect[part]]] for codes in (given, suggested)]
        inside = (pair[0] >= 0) & (pair[1] >= 0)
        # One number for each pair, so that a single bincount fills the square.
        flat = pair[0][inside] * len(shown) + pair[1][inside]
        table += np.bincount(flat, minlength=len(table))
    return table.reshape(len(shown), len(shown)), shown


def worst_suspects(selection: Selection, limit: int) -> np.ndarray:
    """Return the first `limit` of ``selection.suspect_indices``, without sorting all suspects."""
    worst = np.empty(0, dtype=np.int64)
    for part in row_ranges(len(selection)):
        # The worst so far, and the suspects of this part; among equals the first row counts.
        rows = np.append(worst, part.start + np.flatnonzero(~selection.clean_mask[part]))
        worst = rows[np.argsort(-suspicion_of(selection, rows), kind="stable")][:limit]
    return worst


@dataclass(frozen=True)
class SuspectList:
    """The suspects of the page, the worst first."""

    cards: list[Card]
    """The first of them, as part of the page."""
    data: Markup
    """All of them as JSON, column by column."""
    n_listed: int
    n_wrong: int
    """Suspects whose label is probably wrong; the others are unsure."""
    n_shown: int | None
    """Suspects with a picture or text; None where rows have neither."""
    kind: str | None
    """``image``, ``text`` or None."""


def suspect_list(
    selection: Selection, row_id: np.ndarray | None, truth: np.ndarray | None, contents: Contents
) -> SuspectList:
    """Return all suspects, with pictures or texts for as many as `contents` has."""
    listed = worst_suspects(selection, MAX_LISTED)
    wrong = probably_wrong(selection, listed)
    said = judge(selection, listed, row_id, truth)
    first = said.cards(contents, listed[:AT_ONCE])
    more: list[str] = []
    for row in listed[AT_ONCE:].tolist():
        content = None if contents.used_up else contents.of(row)
        if content is None:
            break
        more.append(content.coded)
    n_first = sum(card.content is not None and card.content.kind != "left out" for card in first)
    classes = [name(label) for label in selection.classes.tolist()]
    given, suggested = (
        stored_codes(selection, column)[listed].astype(np.int64)
        for column in ("label", "suggested_label")
    )
    levels = stored_of(selection, "q_value")
    data = {
        "classes": classes,
        "id": said.row_id,
        "given": given.tolist(),
        # -1 where no other label fits better.
        "suggested": np.where(suggested == given, -1, suggested).tolist(),
        "wrong": wrong.astype(int).tolist(),
        "doubt": np.round(said.doubt, 4).tolist(),
        "q": [] if levels is None else [_level(value) for value in levels[listed].tolist()],
        "judged": _coded(said.judged),
        "hint": _coded(said.hint),
        "truth": _coded(said.truth),
        "kind": contents.kind,
        "content": more,
    }
    return SuspectList(
        cards=first,
        data=as_script(data),
        n_listed=len(listed),
        n_wrong=_count_wrong(selection),
        n_shown=None if contents.kind is None else n_first + len(more),
        kind=contents.kind,
    )


def _count_wrong(selection: Selection) -> int:
    """Return how many suspects are in the first pile, those that are not listed among them."""
    suspect = ~selection.clean_mask
    return sum(
        int(np.sum(probably_wrong(selection, part) & suspect[part]))
        for part in row_ranges(len(suspect))
    )


def _level(value: float) -> float | None:
    """Return a level to four digits; None where no useful one keeps the row."""
    return float(f"{value:.4g}") if value < 1 else None


def _coded(words: list[str]) -> list[list[str] | list[int]]:
    """Return the distinct words, and the position of each entry: many rows say the same."""
    known = {word: k for k, word in enumerate(dict.fromkeys(words))}
    return [list(known), [known[word] for word in words]]


def as_script(data: object) -> Markup:
    """Return JSON that cannot end the script element it stands in."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))  # noqa: S704 - no markup is left in it
