"""Cards: rows with their image or text, labels and statistic."""

import base64
import io
from dataclasses import dataclass
from typing import Any

import numpy as np

from kspr.core.labels import same_label, truly_clean
from kspr.errors import UnreadableItemError
from kspr.report._words import level, name, number, share
from kspr.selectors.selection import Selection
from kspr.sources.records import Items

__all__ = ["Card", "borderline_rows", "make_cards"]

THUMBNAIL = 96
"""Longest side of a picture, in pixels."""
SNIPPET = 240
"""Longest text, in characters."""
_TINY = 48
"""Images smaller than this are enlarged without smoothing, which would blur them."""


@dataclass(frozen=True)
class Card:
    """One row: its content, its labels and its statistic."""

    row_id: str
    given: str
    suggested: str | None
    """None where no other label fits better."""
    judged: str
    """The statistic, named as its control names it."""
    image: str | None = None
    """A data URI."""
    tiny: bool = False
    text: str | None = None
    unreadable: bool = False
    truth: str | None = None
    label_right: bool | None = None
    suggestion_right: bool | None = None

    @property
    def search(self) -> str:
        """Text that the search box searches, in lower case."""
        parts = (self.row_id, self.given, self.suggested, self.text, self.truth)
        return " ".join(part for part in parts if part).lower()


def borderline_rows(selection: Selection, limit: int) -> np.ndarray:
    """Return the kept rows that are nearest to the cut-off of their cut group."""
    kept, time = selection.clean_indices, selection.suspicion
    if selection.checked is not None:
        # A row that a person has found right is kept at any distance from the cut-off.
        kept = np.setdiff1d(kept, selection.checked.rows, assume_unique=True)
    cut_group = selection.cut_group[kept]
    # A cut group that fell back has no cut-off: its last kept row is used instead.
    last = np.zeros(len(selection.cut_groups))
    np.maximum.at(last, cut_group, time[kept])
    cutoff = np.where(selection.cut_groups.cutoff > 0, selection.cut_groups.cutoff, last)[cut_group]
    ratio = np.divide(time[kept], cutoff, out=np.zeros(len(kept)), where=cutoff > 0)
    # By ratio, not by distance: cut groups have cut-offs of different sizes.
    return kept[np.lexsort((-time[kept], -ratio))][:limit]


def make_cards(
    selection: Selection,
    rows: np.ndarray,
    *,
    row_id: np.ndarray | None,
    items: Items | None,
    truth: np.ndarray | None,
) -> list[Card]:
    """Return a card for each of `rows`; items of other rows are not loaded."""
    given, suggested = selection.label[rows], selection.suggested_label[rows]
    other = given != suggested
    marks = _marks(selection, rows, truth)
    return [
        Card(
            row_id=str(row if row_id is None else row_id[row]),
            given=name(given[k]),
            suggested=name(suggested[k]) if other[k] else None,
            judged=_judged(selection, row),
            **(_shown(items, row) if items is not None else {}),
            **marks[k],
        )
        for k, row in enumerate(rows.tolist())
    ]


def _judged(selection: Selection, row: int) -> str:
    """Return the statistic of a row and, with an error rate, the smallest q that keeps it."""
    if selection.control == "transition":
        words = [f"doubt {share(float(selection.statistic[row]))}"]
    else:
        words = [f"time {number(float(selection.selection_time[row]))}"]
        if selection.control is not None:
            words.append(f"W {number(float(selection.statistic[row]))}")
    if selection.q_value is not None and selection.q_value[row] < 1:
        words.append(f"kept from q = {level(float(selection.q_value[row]))}")
    return " · ".join(words)


def _marks(
    selection: Selection, rows: np.ndarray, truth: np.ndarray | None
) -> list[dict[str, Any]]:
    """Return true label, and whether given and suggested label are right, for each row."""
    if truth is None:
        return [{} for _ in rows]
    labels_right = truly_clean(selection.label, truth)[rows]
    shown = np.asarray(truth)[rows]
    hits = same_label(selection.suggested_label[rows], shown)
    return [
        {"truth": name(true), "label_right": bool(right), "suggestion_right": bool(hit)}
        for true, right, hit in zip(shown.tolist(), labels_right, hits, strict=True)
    ]


def _shown(items: Items, row: int) -> dict[str, Any]:
    try:
        item = items[row]
        return {"text": _snippet(item)} if items.kind == "text" else _thumbnail(item)
    except (UnreadableItemError, OSError):
        # Pillow decodes late: a damaged file opens, and raises an OSError only here.
        return {"unreadable": True}


def _snippet(text: str) -> str:
    # Only the beginning of a long text is split: it may have megabytes.
    words = " ".join(text[: 4 * SNIPPET].split())
    return words if len(words) <= SNIPPET else words[: SNIPPET - 1] + "…"


def _thumbnail(image: Any) -> dict[str, Any]:
    # JPEG has no transparency.
    small = image.convert("RGB")
    small.thumbnail((THUMBNAIL, THUMBNAIL))
    stream = io.BytesIO()
    tiny = max(small.size) < _TINY
    # Artefacts of JPEG cover much of a tiny image, and a better quality costs little there.
    small.save(stream, "JPEG", quality=95 if tiny else 80, optimize=True)
    data = base64.b64encode(stream.getvalue()).decode("ascii")
    return {"image": f"data:image/jpeg;base64,{data}", "tiny": tiny}
