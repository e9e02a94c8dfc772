"""Cards: rows with their picture or text, their labels and their doubt."""

import base64
import io
from dataclasses import dataclass
from typing import Any

import numpy as np

from kspr._text import shorten, visible
from kspr.core.coded import row_ranges, rows_of, stored_of
from kspr.core.labels import same_label, truly_clean
from kspr.errors import UnreadableItemError
from kspr.report._words import level, name, number, scale_of, share
from kspr.selectors.options import DOUBTING
from kspr.selectors.selection import Selection
from kspr.sources.records import Items

__all__ = ["Card", "Content", "Contents", "Judged", "borderline_rows", "judge", "suspicion_of"]

THUMBNAIL = 256
"""Longest side of a picture, in pixels: it is shown at up to 200, and larger when enlarged."""
SNIPPET = 1200
"""Longest text, in characters."""
ID_LENGTH = 22
"""Longest id on a card, in characters; the hint has all of it."""
_TINY = 48
"""Images smaller than this are enlarged without smoothing, which would blur them."""


@dataclass(frozen=True)
class Content:
    """What is shown of a row: ``image`` (base64), ``text``, ``unreadable`` or ``left out``."""

    kind: str
    data: str = ""
    tiny: bool = False

    @property
    def coded(self) -> str:
        """The content as the scripts of the page read it: a letter for the kind, then the data."""
        letter = self.kind[0].upper() if self.tiny else self.kind[0]
        return letter + self.data


class Contents:
    """Pictures and texts of rows, until all of them together have used up `budget` bytes."""

    def __init__(self, items: Items | None, budget: float) -> None:
        self._items = items
        self._left = budget

    @property
    def kind(self) -> str | None:
        """``image`` or ``text``; None where rows have no content."""
        return None if self._items is None else str(self._items.kind)

    @property
    def used_up(self) -> bool:
        """Whether no more content is loaded."""
        return self._items is None or self._left <= 0

    def of(self, row: int, side: int = THUMBNAIL, length: int = SNIPPET) -> Content | None:
        """Return the content of a row; None where rows have none.

        `side` is the longest side of a picture in pixels, `length` the longest text in characters.
        """
        if self._items is None:
            return None
        if self.used_up:
            return Content("left out")
        try:
            item = self._items[row]
            text = self._items.kind == "text"
            found = _snippet(item, length) if text else _thumbnail(item, side)
        except (UnreadableItemError, OSError):
            # Pillow decodes late: a damaged file opens, and raises an OSError only here.
            found = Content("unreadable")
        self._left -= len(found.data.encode())
        return found


@dataclass(frozen=True, eq=False)
class Judged:
    """What the cards of some rows say, column by column."""

    row_id: list[str]
    given: list[str]
    suggested: list[str | None]
    """None where no other label fits better."""
    doubt: np.ndarray
    """Length of the bar, from 0 to 1: the doubt or, without one, the relative selection time."""
    judged: list[str]
    """The same in words, named as its control names it."""
    hint: list[str]
    """The smallest level that keeps the row; empty without an error rate."""
    truth: list[str]
    """What the true label says; empty without one."""

    def cards(self, contents: Contents, rows: np.ndarray) -> "list[Card]":
        """Return these rows as cards, with their content."""
        return [
            Card(
                row_id=self.row_id[k],
                given=self.given[k],
                suggested=self.suggested[k],
                part=float(self.doubt[k]),
                judged=self.judged[k],
                hint=self.hint[k],
                truth=self.truth[k],
                content=contents.of(row),
            )
            for k, row in enumerate(rows.tolist())
        ]


@dataclass(frozen=True)
class Card:
    """One row: its content, its labels and its doubt."""

    row_id: str
    given: str
    suggested: str | None
    part: float
    judged: str
    hint: str
    truth: str
    content: Content | None

    @property
    def short_id(self) -> str:
        """The id, shortened to fit the card."""
        return shorten(self.row_id, ID_LENGTH)


def borderline_rows(selection: Selection, limit: int) -> np.ndarray:
    """Return the kept rows that are nearest to the cut-off of their cut group."""
    kept = selection.clean_mask
    if selection.checked is not None:
        # A row that a person has found right is kept at any distance from the cut-off.
        kept = kept.copy()
        kept[selection.checked.rows] = False
    # A cut group that fell back has no cut-off: its last kept row is used instead.
    last = np.zeros(len(selection.cut_groups))
    for part in row_ranges(len(kept)):
        own = kept[part]
        np.maximum.at(last, selection.cut_group[part][own], suspicion_of(selection, part)[own])
    ends = np.where(selection.cut_groups.cutoff > 0, selection.cut_groups.cutoff, last)
    near = np.empty(0, dtype=np.int64)
    for part in row_ranges(len(kept)):
        # The nearest so far, and the rows of this part; among equals the first row counts.
        rows = np.append(near, part.start + np.flatnonzero(kept[part]))
        time, cutoff = suspicion_of(selection, rows), ends[selection.cut_group[rows]]
        ratio = np.divide(time, cutoff, out=np.zeros(len(rows)), where=cutoff > 0)
        # By ratio, not by distance: cut groups have cut-offs of different sizes.
        near = rows[np.lexsort((-time, -ratio))][:limit]
    return near


def suspicion_of(selection: Selection, rows: Any) -> np.ndarray:
    """Return what suspects are ranked by, of some rows: all of them would take much memory."""
    name = "statistic" if selection.control in DOUBTING else "selection_time"
    return rows_of(selection, name, rows)


def judge(
    selection: Selection, rows: np.ndarray, row_id: np.ndarray | None, truth: np.ndarray | None
) -> Judged:
    """Return what the cards of `rows` say."""
    given, suggested = (rows_of(selection, name, rows) for name in ("label", "suggested_label"))
    other = (given != suggested).tolist()
    names = [visible(row) for row in (rows if row_id is None else row_id[rows]).tolist()]
    return Judged(
        row_id=names,
        given=[name(label) for label in given.tolist()],
        suggested=[
            name(label) if differs else None
            for label, differs in zip(suggested.tolist(), other, strict=True)
        ],
        doubt=_bar(selection, rows),
        judged=_in_words(selection, rows),
        hint=_hints(selection, rows),
        truth=_marks(selection, rows, truth),
    )


def _bar(selection: Selection, rows: np.ndarray) -> np.ndarray:
    if selection.control in DOUBTING:
        return rows_of(selection, "statistic", rows)
    # Times have no upper end of their own.
    time = selection.selection_time
    return np.asarray(time[rows] / max(float(time.max()), 1e-12))


def _in_words(selection: Selection, rows: np.ndarray) -> list[str]:
    if selection.control in DOUBTING:
        doubts = rows_of(selection, "statistic", rows).tolist()
        return [f"doubt {share(value)}" for value in doubts]
    times = [f"time {number(value)}" for value in selection.selection_time[rows].tolist()]
    if selection.control is None:
        return times
    compared, what = rows_of(selection, "statistic", rows).tolist(), scale_of(selection).name
    return [f"{time} · {what} {number(w)}" for time, w in zip(times, compared, strict=True)]


def _hints(selection: Selection, rows: np.ndarray) -> list[str]:
    if stored_of(selection, "q_value") is None:
        return [""] * len(rows)
    return [
        f"Kept only if q = {level(q)} or more is asked for" if q < 1 else "Kept at no q below 100 %"
        for q in rows_of(selection, "q_value", rows).tolist()
    ]


def _marks(selection: Selection, rows: np.ndarray, truth: np.ndarray | None) -> list[str]:
    """Return what the true label says about the given and the suggested one, for each row."""
    if truth is None:
        return [""] * len(rows)
    right = truly_clean(selection.label, truth)[rows].tolist()
    shown = np.asarray(truth)[rows]
    given, suggested = (rows_of(selection, name, rows) for name in ("label", "suggested_label"))
    hits, differs = same_label(suggested, shown).tolist(), (suggested != given).tolist()
    words = []
    for true, fits, hit, other in zip(shown.tolist(), right, hits, differs, strict=True):
        ending = f", {'' if hit else 'not '}as suggested" if other else ""
        words.append("✓ given label is right" if fits else f"✗ truth: {name(true)}{ending}")
    return words


def _snippet(text: str, length: int) -> Content:
    # Only the beginning of a long text is split: it may have megabytes.
    words = " ".join(text[: 4 * length].split())
    # A file that is not UTF-8 may hold half characters, which cannot be written.
    words = words.encode("utf-8", "replace").decode()
    return Content("text", words if len(words) <= length else words[: length - 1] + "…")


def _thumbnail(image: Any, side: int) -> Content:
    # JPEG has no transparency.
    small = image.convert("RGB")
    small.thumbnail((side, side))
    stream = io.BytesIO()
    tiny = max(small.size) < _TINY
    # Artefacts of JPEG cover much of a tiny image, and a better quality costs little there.
    small.save(stream, "JPEG", quality=95 if tiny else 80, optimize=True)
    return Content("image", base64.b64encode(stream.getvalue()).decode("ascii"), tiny)
