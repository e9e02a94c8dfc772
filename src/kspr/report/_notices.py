"""Notices: classes in which the level asked for was not met, and what would help."""

from dataclasses import dataclass

import numpy as np

from kspr.report._facts import label_codes
from kspr.report._words import count, level, name
from kspr.selectors.selection import Selection

__all__ = ["Notice", "NoticeClass", "notices"]

MAX_LISTED = 24
"""Largest number of classes that a notice lists; the table of classes has all."""


_USEFUL = 0.5
"""Largest q that is suggested: above it, most kept labels may be wrong."""


@dataclass(frozen=True)
class NoticeClass:
    """One class of a notice."""

    label: str
    detail: str


@dataclass(frozen=True)
class Notice:
    """One way in which the level was not met, where, and what would help."""

    status: str
    headline: str
    meaning: str
    help: str
    classes: tuple[NoticeClass, ...]
    n_more: int


def notices(selection: Selection) -> list[Notice]:
    """Return a notice for every status in which the level was not met, the worst first."""
    # The order of `_MEANING` is that of the notices, the worst first.
    present = set(selection.cut_groups.status.tolist())
    return [_notice(selection, status) for status in _MEANING if status in present]


_MEANING = {
    "fallback": "No level up to 50\u202f% could be reached there. The better-fitting half was kept "
    "instead, without an estimate of its error rate.",
    "empty": "Nothing could be kept there at the level asked for, so all of these rows are listed "
    "as suspects. That does not mean that their labels are wrong.",
    "raised": "The level asked for could not be reached there. The smallest level that could be "
    "was used instead, so more of these kept labels may be wrong.",
}
_HEADLINE = {
    "fallback": "No error rate for what is kept",
    "empty": "Nothing kept",
    "raised": "A higher error rate than asked",
}


def _notice(selection: Selection, status: str) -> Notice:
    cut_groups, cut_group = selection.cut_groups, selection.cut_group
    affected = cut_groups.status == status
    rows = np.flatnonzero(affected[cut_group])
    codes = label_codes(selection, selection.label[rows])
    size = np.bincount(label_codes(selection, selection.label), minlength=len(selection.classes))
    hit = np.bincount(codes, minlength=len(selection.classes))
    measure = cut_groups.q_reached if status == "raised" else cut_groups.smallest_q
    worst = np.zeros(len(selection.classes))
    # `worst[codes] = maximum(...)` would keep only the last value of a class.
    np.maximum.at(worst, codes, measure[cut_group[rows]])
    listed = np.flatnonzero(hit)
    # The last key of lexsort counts first.
    listed = listed[np.lexsort((-hit[listed], -worst[listed]))]
    shown = tuple(
        NoticeClass(
            name(selection.classes[k]),
            _detail(selection, status, int(hit[k]), int(size[k]), worst[k]),
        )
        for k in listed[:MAX_LISTED]
    )
    where = _of_classes(len(listed), len(selection.classes))
    return Notice(
        status=status,
        headline=f"{_HEADLINE[status]} in {where} ({count(len(rows))} rows)",
        meaning=_MEANING[status],
        help=_help(selection, affected),
        classes=shown,
        n_more=len(listed) - len(shown),
    )


def _of_classes(found: int, total: int) -> str:
    if found == total:
        return "the only class" if total == 1 else f"all {count(total)} classes"
    return f"{count(found)} of {count(total)} classes"


def _detail(selection: Selection, status: str, hit: int, size: int, worst: float) -> str:
    rows = f"all {count(hit)} rows" if hit == size else f"{count(hit)} of {count(size)} rows"
    if selection.checked is not None:
        return rows
    if status == "raised":
        return f"{rows}, at up to {level(worst)}"
    return f"{rows}, {level(worst)} needed" if worst <= _USEFUL else f"{rows}, out of reach"


def _help(selection: Selection, affected: np.ndarray) -> str:
    """Return advice: a larger q, larger classes, another control, checked rows."""
    if selection.checked is not None:
        return (
            # 0.95**59 < 0.05: the fewest right answers that exclude 5 % with 95 % confidence.
            f"Check more rows: {count(len(selection.checked.rows))} are too few to keep more. Even "
            f"without a single error, a level of {level(0.05)} needs 59 checked rows."
        )
    cut_groups = selection.cut_groups
    smallest, sizes = cut_groups.smallest_q[affected], cut_groups.n[affected]
    words = [_help_by_level(smallest)]
    words.append(
        f"A part of m rows cannot reach a level below 1/m, and the smallest of these has "
        f"{count(sizes.min())} rows ({level(1 / sizes.min())}): more rows per class help"
    )
    if selection.manifest.parameters.get("samples_per_class") is not None:
        words.append("Larger pieces help too: samples_per_class=None does not split the data")
    words.append(_help_by_control(selection))
    return ". ".join(words) + "."


def _help_by_control(selection: Selection) -> str:
    """Return what else can be tried with this control, or with another one."""
    checked = "rows that you have checked (kspr verify --from all, then kspr select --checked)"
    if selection.control == "transition":
        return f"Features that separate the classes better help too, and so do {checked}"
    if selection.control == "exchangeable" and not selection.manifest.parameters["remove_floor"]:
        return (
            "The smallest level of this control grows with the noise: remove_floor=True avoids "
            f"that, and so do control='transition' and {checked}"
        )
    return f"control='transition' reaches lower levels, and so do {checked}"


def _help_by_level(smallest: np.ndarray) -> str:
    """Return which q would be met, given the smallest reachable level of each cut group."""
    within = smallest[smallest <= _USEFUL]
    if not within.size:
        return f"No q up to {level(_USEFUL)} would help"
    advice = f"Asking for q = {_ceiling(within.max())} would meet the level in "
    if within.size == smallest.size:
        return advice + "all of them"
    return (
        f"{advice}{count(within.size)} of these {count(smallest.size)} parts; in the others no q "
        f"up to {level(_USEFUL)} would"
    )


def _ceiling(value: float) -> str:
    """Return a level rounded up to two decimals, so that it can be reached."""
    # The small number keeps 0.07, which is stored as 0.0700000001, from becoming 0.08.
    return f"{np.ceil(100 * value - 1e-9) / 100:g}"
