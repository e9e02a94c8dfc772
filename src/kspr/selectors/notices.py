"""Notices: where the error rate was not met, or rows need a look, and what would help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kspr._text import percent, shorten
from kspr.core.duplicates import conflicting
from kspr.selectors.cut_groups import far_classes
from kspr.selectors.options import MODELLED, NOT_HELD, UNSEEN
from kspr.selectors.verdict import has_checks, probably_wrong

if TYPE_CHECKING:
    from kspr.selectors.selection import Selection

MAX_LISTED = 10
"""Largest number of classes that a notice lists; the table of classes has all."""
_IN_TEXT = 3
"""How many of them the text of a notice names."""
_LONGEST = 40
"""Longest name of a class, in characters."""
_USEFUL = 0.5
"""Largest q that is suggested: above it, most kept labels may be wrong."""
_NEARLY_ALL, _ENOUGH = 0.9, 10
"""Share of the labels of a class that are probably wrong, from which on the features may not show
the class; and its rows, at least."""


@dataclass(frozen=True)
class NoticeClass:
    """One class of a notice."""

    label: str
    detail: str


@dataclass(frozen=True)
class Notice:
    """What a user must know about some of the rows, where they are, and what would help."""

    status: str
    headline: str
    meaning: str
    help: str
    classes: tuple[NoticeClass, ...]
    n_more: int

    def __str__(self) -> str:
        first = [f"{entry.label} ({entry.detail})" for entry in self.classes[:_IN_TEXT]]
        left = self.n_more + len(self.classes) - len(first)
        more = [f"and {left:,} more"] if left else []
        return (
            f"{self.headline}: {'; '.join([*first, *more])}.\n{self.meaning}\n"
            f"What would help: {self.help}"
        )


def notices(selection: Selection) -> tuple[Notice, ...]:
    """Return where the error rate asked for was not reached, the worst first, and copies."""
    # The order of `_MEANING` is that of the notices, the worst first.
    present = set(selection.cut_groups.status.tolist())
    unmet = (_notice(selection, status) for status in _MEANING if status in present)
    return (*unmet, *_unshown(selection), *_uneven(selection), *_copies(selection))


def _unshown(selection: Selection) -> tuple[Notice, ...]:
    """Return the notice about classes that the features may not show, or none."""
    if not selection.doubt_is_chance or has_checks(selection):
        return ()
    n_classes = len(selection.classes)
    size = np.bincount(selection.label_code, minlength=n_classes)
    wrong = np.bincount(selection.label_code[probably_wrong(selection)], minlength=n_classes)
    listed = np.flatnonzero((wrong >= _NEARLY_ALL * size) & (size >= _ENOUGH))
    if not listed.size:
        return ()
    return (
        Notice(
            status="unshown",
            headline=f"Nearly all labels seem wrong in {_of_classes(len(listed), n_classes)} "
            f"({int(size[listed].sum()):,} rows)",
            meaning="Either they are, or the features do not show what these classes are: then "
            "right labels look wrong, and are counted as wrong.",
            help="Look at ten of these rows first. If their labels are right, take other features.",
            **_listed(selection, listed, [f"{wrong[k]:,} of {size[k]:,} labels" for k in listed]),
        ),
    )


def _uneven(selection: Selection) -> tuple[Notice, ...]:
    """Return the notice about classes that are cut by themselves, or should be, or none."""
    groups, kept = selection.cut_groups, selection.clean_mask
    together = groups.class_code < 0
    # A cut per class holds q in each; checks, and a model that has none, say nothing of classes.
    if not selection.doubt_is_chance or not together.any():
        return ()
    far, wrong, n_kept = far_classes(selection, kept, float(groups.q_asked[0]))
    listed = groups.class_code[~together]
    size = np.bincount(selection.label_code, minlength=len(n_kept))
    detail = [f"{n_kept[k]:,} of {size[k]:,} rows kept" for k in listed]
    headline, meaning, advice = (
        "Cut by itself" if len(listed) == 1 else "Cut by themselves",
        "Kept like the others, far more of these labels than q would be wrong.",
        "Look at the suspects of these classes, which may be too few to stand out in any list.",
    )
    if not listed.size:
        listed = far
        detail = [f"about {wrong[k]:,.0f} of {n_kept[k]:,} kept labels wrong" for k in listed]
        headline, meaning, advice = (
            "A rate far above q",
            "q holds over all classes together. A single class may then be kept as it is, however "
            "many of its labels are wrong.",
            "cut='per_class' holds q in every class; a fit at this q does it in rare ones.",
        )
    if not listed.size:
        return ()
    where = _of_classes(len(listed), len(n_kept))
    return (
        Notice(
            status="uneven",
            headline=f"{headline} in {where} ({int(n_kept[listed].sum()):,} kept rows)",
            meaning=meaning,
            help=advice,
            **_listed(selection, listed, detail),
        ),
    )


def _listed(selection: Selection, classes: np.ndarray, details: Sequence[str]) -> dict[str, Any]:
    """Return the classes of a notice by their codes, as far as they are listed."""
    names = (shorten(selection.classes[k], _LONGEST) or "(empty)" for k in classes[:MAX_LISTED])
    entries = tuple(map(NoticeClass, names, details))
    return {"classes": entries, "n_more": len(classes) - len(entries)}


def _copies(selection: Selection) -> tuple[Notice, ...]:
    """Return the notice about copies with different labels, or none."""
    if selection.duplicate_set is None:
        return ()
    code = selection.label_code.astype(np.intp)
    rows = np.flatnonzero(conflicting(selection.duplicate_set, code))
    if not rows.size:
        return ()
    hit = np.bincount(code[rows], minlength=len(selection.classes))
    listed = np.argsort(-hit, kind="stable")[: np.count_nonzero(hit)]
    n_sets = len(np.unique(selection.duplicate_set[rows]))
    return (
        Notice(
            status="copies",
            headline=f"Copies with different labels ({rows.size:,} rows in {n_sets:,} "
            f"{'set' if n_sets == 1 else 'sets'})",
            meaning="These rows have the same features as others, or nearly the same, and another "
            "label. If the features show what tells the classes apart, at most one label of a set "
            "is right. The labels that fit worse than that of a copy are not kept.",
            help="Look at these rows first. The column `copies` of samples.parquet, and of "
            "Selection.to_frame(), numbers the sets.",
            **_listed(
                selection, listed, [f"{n:,} {'row' if n == 1 else 'rows'}" for n in hit[listed]]
            ),
        ),
    )


_MEANING = {
    UNSEEN: "The chances that labels are wrong hardly differ from row to row. So the features, or "
    "the model of your own, see little of what is wrong, and wrong labels may be as many among the "
    "kept as among the others. Labels by a language model are often like that.",
    NOT_HELD: "Two estimates of the same rate exclude each other: by the chances of single labels, "
    "more of the kept ones are wrong than were asked for. Do not rely on this rate.",
    "fallback": "No error rate up to 50 % could be reached there. The best half was kept instead, "
    "without an estimate of its error rate.",
    "empty": "Nothing could be kept there at the error rate asked for, so all of these rows are "
    "suspects. That does not mean that their labels are wrong.",
    "raised": "The error rate asked for could not be reached there. The smallest that could be was "
    "used instead, so more of these kept labels may be wrong.",
}
_WITHOUT_RATE = {
    NOT_HELD: "100 checked rows hold the rate whatever the noise is (kspr review). kspr selfcheck "
    "shows how far it is off.",
    UNSEEN: "100 checked rows hold a rate whatever the noise is (kspr review), and kspr plan then "
    "says which rows a person must label for a finished data set. Any other score of doubt may "
    "serve better (kspr select --doubt).",
}
"""Statuses whose level is no error rate, and what would help."""
_HEADLINE = {
    NOT_HELD: "The error rate is not held",
    UNSEEN: "No error rate can be stated",
    "fallback": "No error rate for what is kept",
    "empty": "Nothing kept",
    "raised": "A higher error rate than asked",
}


def _notice(selection: Selection, status: str) -> Notice:
    cut_groups, cut_group = selection.cut_groups, selection.cut_group
    affected = cut_groups.status == status
    code, mask = selection.label_code, affected[cut_group]
    size = np.bincount(code, minlength=len(selection.classes))
    hit = np.bincount(code[mask], minlength=len(selection.classes))
    measure = cut_groups.q_reached if status == "raised" else cut_groups.smallest_q
    worst = np.zeros(len(selection.classes))
    # `worst[code] = maximum(...)` would keep only the last value of a class.
    np.maximum.at(worst, code[mask], measure[cut_group[mask]])
    listed = np.flatnonzero(hit)
    # The last key of lexsort counts first.
    listed = listed[np.lexsort((-hit[listed], -worst[listed]))]
    details = [_detail(selection, status, int(hit[k]), int(size[k]), worst[k]) for k in listed]
    where = _of_classes(len(listed), len(selection.classes))
    return Notice(
        status=status,
        headline=f"{_HEADLINE[status]} in {where} ({np.count_nonzero(mask):,} rows)",
        meaning=_MEANING[status],
        help=_WITHOUT_RATE[status] if status in _WITHOUT_RATE else _help(selection, affected),
        **_listed(selection, listed, details),
    )


def _of_classes(hit: int, total: int) -> str:
    if hit == total:
        return "the only class" if total == 1 else f"all {total:,} classes"
    return f"{hit:,} of {total:,} classes"


def _detail(selection: Selection, status: str, hit: int, size: int, worst: float) -> str:
    rows = f"all {hit:,} rows" if hit == size else f"{hit:,} of {size:,} rows"
    if selection.checked is not None or status in _WITHOUT_RATE:
        return rows
    if status == "raised":
        return f"{rows}, at up to {percent(worst)}"
    return f"{rows}, {percent(worst)} needed" if worst <= _USEFUL else f"{rows}, out of reach"


def _help(selection: Selection, affected: np.ndarray) -> str:
    """Return advice: a larger q, larger classes, another control, checked rows."""
    if selection.checked is not None and has_checks(selection):
        return (
            f"Check more rows: {int(selection.checked.counted.sum()):,} are too few to keep more."
        )
    cut_groups = selection.cut_groups
    smallest, sizes = cut_groups.smallest_q[affected], cut_groups.n[affected]
    words = [_help_by_level(smallest)]
    words.append(
        f"m rows cannot reach an error rate below 1/m, and the smallest of these parts has "
        f"{sizes.min():,} rows ({percent(1 / sizes.min())}): more rows per class help"
    )
    # -1 marks a pooled cut, which this advice would not change.
    if (cut_groups.class_code >= 0).all():
        words.append("cut='pooled' holds q over all classes together instead")
    if selection.manifest.parameters.get("samples_per_class") is not None:
        words.append("Larger pieces help too: samples_per_class=None")
    words.append(_help_by_control(selection))
    return ". ".join(words) + "."


def _help_by_control(selection: Selection) -> str:
    """Return what else can be tried with this control, or with another one."""
    checked = "rows that you have checked (kspr verify)"
    if selection.control == "annotators":
        return f"More labels a row help too, and so do {checked}"
    if selection.control in MODELLED:
        return f"Features that separate the classes better help too, and so do {checked}"
    return f"control='people' reaches lower error rates, and so do {checked}"


def _help_by_level(smallest: np.ndarray) -> str:
    """Return which q would be met, given the smallest reachable level of each cut group."""
    within = smallest[smallest <= _USEFUL]
    if not within.size:
        return f"No q up to {percent(_USEFUL)} would help"
    advice = f"q = {_ceiling(within.max())} could be reached in "
    if within.size == smallest.size:
        return advice + "all of them"
    return (
        f"{advice}{within.size:,} of these {smallest.size:,} parts, and in the others no q up to "
        f"{percent(_USEFUL)}"
    )


def _ceiling(value: float) -> str:
    """Return a level rounded up to two decimals, so that it can be reached."""
    # The small number keeps 0.07, which is stored as 0.0700000001, from becoming 0.08.
    return f"{np.ceil(100 * value - 1e-9) / 100:g}"
