"""Rows on the page: their cards, the suspects with all that is said of them, the borderline."""

import json
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from kspr._text import shorten, visible
from kspr.core.duplicates import conflicting
from kspr.core.labels import same_label, truly_clean
from kspr.report.contents import (
    Content,
    Contents,
    level,
    name,
    number,
    scale_of,
    share,
    statistic_of,
)
from kspr.selectors import Selection
from kspr.selectors.verdict import doubted_rows, probably_wrong

ID_LENGTH = 22
"""Longest id on a card, in characters; the hint has all of it."""
MAX_CLASSES = 20
"""Largest number of classes along a side of the matrix; more could not be read."""
MAX_LISTED = 250_000
"""Largest number of suspects in the list: with more, a browser would be slow."""
MAX_SETS = 24
"""Largest number of sets of copies."""
AT_ONCE = 28
"""Cards that are part of the page itself; the others are built when they are asked for."""


class Card(NamedTuple):
    """The words on a row's card: its labels and its doubt."""

    row_id: str
    given: str
    suggested: str | None
    """None where no other label fits better."""
    doubt: float
    """Length of the bar, from 0 to 1: the doubt or, without one, the relative selection time."""
    judged: str
    """The same in words, named as its control names it."""
    hint: str
    """The smallest level that keeps the row; empty without an error rate."""
    truth: str
    """What the true label says; empty without one."""

    @property
    def short_id(self) -> str:
        """The id, shortened to fit the card."""
        return shorten(self.row_id, ID_LENGTH)


Cards = list[tuple[Card, Content | None]]
"""Cards with their picture or text."""


def cards_of(
    selection: Selection,
    rows: np.ndarray,
    contents: Contents,
    row_id: np.ndarray | None = None,
    truth: np.ndarray | None = None,
) -> Cards:
    """Return the cards of some rows, with their content."""
    said = judge(selection, rows, row_id, truth)
    return [(card, contents.of(row)) for card, row in zip(said, rows.tolist(), strict=True)]


def judge(
    selection: Selection, rows: np.ndarray, row_id: np.ndarray | None, truth: np.ndarray | None
) -> list[Card]:
    """Return the words on the cards of some rows, without their content."""
    given, suggested = selection.label[rows].tolist(), selection.suggested_label[rows].tolist()
    others = [None if a == b else name(b) for a, b in zip(given, suggested, strict=True)]
    return list(
        map(
            Card,
            [visible(row) for row in (rows if row_id is None else row_id[rows]).tolist()],
            map(name, given),
            others,
            _bar(selection, rows),
            _in_words(selection, rows),
            _hints(selection, rows),
            _marks(selection, rows, truth),
        )
    )


def _bar(selection: Selection, rows: np.ndarray) -> list[float]:
    shown = selection.suspicion
    if not selection.doubt_is_chance:
        # Times have no upper end of their own.
        shown = shown / max(float(shown.max()), 1e-12)
    return [float(value) for value in shown[rows]]


def _in_words(selection: Selection, rows: np.ndarray) -> list[str]:
    if selection.doubt_is_chance:
        return [f"doubt {share(value)}" for value in selection.doubt[rows].tolist()]
    word = scale_of(selection).short
    times = [f"{word} {number(value)}" for value in selection.selection_time[rows].tolist()]
    if selection.control is None:
        return times
    compared, scale = statistic_of(selection)[rows].tolist(), scale_of(selection).name
    return [f"{time} · {scale} {number(w)}" for time, w in zip(times, compared, strict=True)]


def _hints(selection: Selection, rows: np.ndarray) -> list[str]:
    if selection.q_value is None:
        return [""] * len(rows)
    return [
        f"Kept only if q = {level(q)} or more is asked for" if q < 1 else "Kept at no q below 100 %"
        for q in selection.q_value[rows].tolist()
    ]


def _marks(selection: Selection, rows: np.ndarray, truth: np.ndarray | None) -> list[str]:
    """Return how the given and the suggested label of each row compare with the true one."""
    if truth is None:
        return [""] * len(rows)
    right = truly_clean(selection.label, truth)[rows].tolist()
    shown = np.asarray(truth)[rows]
    given, suggested = selection.label[rows], selection.suggested_label[rows]
    hits, differs = same_label(suggested, shown).tolist(), (suggested != given).tolist()
    words = []
    for true, fits, hit, other in zip(shown.tolist(), right, hits, differs, strict=True):
        ending = f", {'' if hit else 'not '}as suggested" if other else ""
        words.append("✓ given label is right" if fits else f"✗ truth: {name(true)}{ending}")
    return words


def borderline_rows(selection: Selection, limit: int) -> np.ndarray:
    """Return the kept rows that are nearest to the threshold of their cut group."""
    kept, group = selection.clean_mask.copy(), selection.cut_group
    if selection.checked is not None:
        # A row that a person called right is kept at any distance from the cut-off.
        kept[selection.checked.rows] = False
    suspicion, cutoff = selection.suspicion, selection.cut_groups.cutoff
    # A cut group that fell back has no cut-off: its last kept row is used instead.
    last = np.zeros(len(cutoff))
    np.maximum.at(last, group[kept], suspicion[kept])
    rows = np.flatnonzero(kept)
    end = np.where(cutoff > 0, cutoff, last)[group[rows]]
    # By ratio, not by distance: cut groups have cut-offs of different sizes.
    ratio = np.divide(suspicion[rows], end, out=np.zeros(len(rows)), where=end > 0)
    return rows[np.lexsort((-suspicion[rows], -ratio))][:limit]


@dataclass(frozen=True)
class CopySet:
    """Rows that are copies of each other, and have different labels."""

    card: Card
    """That of the first one, whose picture or text stands for all."""
    content: Content | None
    labels: list[tuple[str, list[tuple[str, bool]]]]
    """Each label, and the names of its rows with whether they are kept."""


def copy_sets(selection: Selection, contents: Contents, row_id: np.ndarray | None) -> list[CopySet]:
    """Return the copies with different labels, in sets; the largest sets first."""
    if selection.duplicate_set is None:
        return []
    rows = np.flatnonzero(
        conflicting(selection.duplicate_set, selection.label_code.astype(np.intp))
    )
    _, number, size = np.unique(
        selection.duplicate_set[rows], return_inverse=True, return_counts=True
    )
    sets = []
    for k in np.argsort(-size, kind="stable")[:MAX_SETS]:
        inside = rows[number == k]
        cards = judge(selection, inside, row_id, None)
        labels: dict[str, list[tuple[str, bool]]] = {}
        for card, kept in zip(cards, selection.clean_mask[inside].tolist(), strict=True):
            labels.setdefault(card.given, []).append((card.short_id, kept))
        sets.append(CopySet(cards[0], contents.of(int(inside[0])), list(labels.items())))
    return sets


@dataclass(frozen=True)
class Matrix:
    """Suspects by given label (rows) and suggested label (columns)."""

    names: list[str]
    short: list[str]
    counts: list[list[int]]
    shades: list[list[float]]
    """How dark each entry is, from 0 to 1."""


def matrix(selection: Selection) -> Matrix:
    """Return the suspects by given and suggested label, for the classes most concerned."""
    counts, shown = count_suggestions(selection)
    names = [name(label) for label in selection.classes[shown].tolist()]
    # The root makes small counts visible beside large ones.
    shades = np.sqrt(counts / max(int(counts.max(initial=0)), 1))
    short = [shorten(label, 18) for label in names]
    return Matrix(names, short, counts.tolist(), np.round(shades, 2).tolist())


def count_suggestions(selection: Selection) -> tuple[np.ndarray, np.ndarray]:
    """Return counts of suspects by given and suggested label, and the classes that are shown."""
    n_classes, suspects = len(selection.classes), doubted_rows(selection)
    given, suggested = (
        codes[suspects] for codes in (selection.label_code, selection.suggested_code)
    )
    other = given != suggested
    n_given = np.bincount(given, minlength=n_classes)
    n_moved = np.bincount(np.append(given[other], suggested[other]), minlength=n_classes)
    # Classes with most suggestions first; those with most suspects among equals.
    shown = np.sort(np.lexsort((-n_given, -n_moved))[:MAX_CLASSES])
    position = np.full(n_classes, -1)
    position[shown] = np.arange(len(shown))
    pairs = np.stack([position[given], position[suggested]])
    counts = np.zeros((len(shown), len(shown)), dtype=np.int64)
    np.add.at(counts, tuple(pairs[:, (pairs >= 0).all(axis=0)]), 1)
    return counts, shown


@dataclass(frozen=True)
class SuspectList:
    """The suspects of the page, the worst first."""

    cards: Cards
    """The first of them, as part of the page."""
    data: Markup
    """All of them as JSON, column by column."""
    n: int
    """Suspects, and kept rows whose label is probably wrong."""
    n_listed: int
    n_wrong: int
    """Rows whose label is probably wrong, listed or not; the others are uncertain."""
    n_kept: int
    """Rows that are kept all the same."""
    n_shown: int | None
    """Suspects with a picture or text; None where rows have neither."""
    kind: str | None
    """``image``, ``text`` or None."""


def suspect_list(
    selection: Selection, row_id: np.ndarray | None, truth: np.ndarray | None, contents: Contents
) -> SuspectList:
    """Return all rows in doubt, with pictures or texts for as many as `contents` has."""
    suspects = doubted_rows(selection)
    wrong, listed = probably_wrong(selection)[suspects], suspects[:MAX_LISTED]
    said = [
        card._replace(judged=f"{card.judged} · kept") if kept else card
        for card, kept in zip(
            judge(selection, listed, row_id, truth),
            selection.clean_mask[listed].tolist(),
            strict=True,
        )
    ]
    # Sounds are played by the review page only.
    kind = None if contents.kind == "sound" else contents.kind
    first = [
        (card, contents.of(row))
        for card, row in zip(said[:AT_ONCE], listed[:AT_ONCE].tolist(), strict=True)
    ]
    more: list[str] = []
    for row in listed[AT_ONCE:].tolist():
        content = None if contents.used_up else contents.of(row)
        if content is None:
            break
        more.append(content.coded)
    n_first = sum(content is not None and content.kind != "left out" for _, content in first)
    given, suggested = (
        column[listed].astype(np.int64)
        for column in (selection.label_code, selection.suggested_code)
    )
    levels = [] if selection.q_value is None else selection.q_value[listed].tolist()
    data = {
        "classes": [name(label) for label in selection.classes.tolist()],
        "id": [card.row_id for card in said],
        "given": given.tolist(),
        # -1 where no other label fits better.
        "suggested": np.where(suggested == given, -1, suggested).tolist(),
        "wrong": wrong[:MAX_LISTED].astype(int).tolist(),
        "doubt": np.round([card.doubt for card in said], 4).tolist(),
        # To four digits; none where no useful level keeps the row.
        "q": [float(f"{q:.4g}") if q < 1 else None for q in levels],
        "judged": _coded([card.judged for card in said]),
        "hint": _coded([card.hint for card in said]),
        "truth": _coded([card.truth for card in said]),
        "kind": kind,
        "content": more,
    }
    # "<" could end the script element that the data stand in.
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return SuspectList(
        cards=first,
        data=Markup(text),  # noqa: S704 - no markup is left in it
        n_listed=len(listed),
        n=len(suspects),
        n_wrong=int(wrong.sum()),
        n_kept=int(selection.clean_mask[suspects].sum()),
        n_shown=None if kind is None else n_first + len(more),
        kind=kind,
    )


def _coded(words: list[str]) -> list[list[str] | list[int]]:
    """Return the distinct words, and the position of each entry: many rows say the same."""
    known = {word: k for k, word in enumerate(dict.fromkeys(words))}
    return [list(known), [known[word] for word in words]]
