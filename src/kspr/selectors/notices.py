"""Verdict and notices: what a user must know of a selection, in sentences.

Terminal, notebook, JSON and report show the same ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kspr._text import percent, shorten
from kspr.core.duplicates import conflicting
from kspr.errors import InputError
from kspr.selectors.checked import CANNOT_TELL
from kspr.selectors.cut_groups import far_classes
from kspr.selectors.options import DOUBTING, MODELLED, NOT_HELD, UNSEEN

if TYPE_CHECKING:
    from kspr.selectors.selection import Selection

__all__ = [
    "Ends",
    "Notice",
    "NoticeClass",
    "Verdict",
    "asked_rate",
    "basis",
    "doubted_rows",
    "ends",
    "estimated_share",
    "has_checks",
    "notices",
    "probably_wrong",
    "verdict",
]

MAX_LISTED = 10
"""Largest number of classes that a notice lists; the table of classes has all."""
_IN_TEXT = 3
"""How many of them the text of a notice names."""
_LONGEST = 40
"""Longest name of a class, in characters."""
_USEFUL = 0.5
"""Largest q that is suggested: above it, most kept labels may be wrong."""
_CHECK = "Check 100 rows to know."
_UNCHECKED = (
    "Where people made the labels and 5 % was asked for, 4 to 6 % of the kept labels were "
    "wrong in our measurements."
)
_UNCHECKED_MODEL = _UNCHECKED.replace("4 to 6 %", "4 to 9 %")
"""The probabilities of a network are sure of some labels that people got wrong."""
_UNCHECKED_CROWD = (
    "Where people err together, 2 to 4 % of the kept labels were wrong in our measurements when "
    "2 % was asked for."
)
_UNSEEN = (
    "No error rate is stated: these features hardly show which labels are wrong, and noise that "
    "they do not show cannot be counted. With about 100 checked rows a rate holds for any noise."
)
_NEARLY_ALL, _ENOUGH = 0.9, 10
"""Share of the labels of a class that are probably wrong, from which on the features may not show
the class; and its rows, at least."""


@dataclass(frozen=True)
class Verdict:
    """The answer of a selection in sentences, the most important first, and their numbers."""

    n_probably_wrong: int
    """Labels that are more likely wrong than right; a large error rate keeps some of them."""
    n_uncertain: int
    """The other suspects, whose labels may well be right."""
    wrong_among_kept: float
    """Share of wrong labels to expect among the kept ones, by the checked rows once there are
    some; nan where it is not estimated."""
    sentences: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join(self.sentences)


def verdict(selection: Selection) -> Verdict:
    """Return how many labels are wrong, and what to expect of those that are kept."""
    wrong, kept, n = probably_wrong(selection), selection.clean_mask, len(selection)
    n_wrong, n_uncertain = int(wrong.sum()), int((~wrong & ~kept).sum())
    if "unchecked" in selection.cut_groups.status:
        n_kept = int(kept.sum())
        found = f"None of the {n:,} labels is kept before some are checked."
        if n_kept:
            found = f"Of {n:,} labels only {n_kept:,} are kept: checked ones that are right."
        because = "A doubt alone has no error rate."
        return Verdict(n_wrong, n_uncertain, float("nan"), (found, because, _CHECK))
    if UNSEEN in selection.cut_groups.status:
        found = f"These features hardly show which of the {n:,} labels are wrong."
        kept_by = f"{int(kept.sum()):,} are kept in the order of doubt, without an error rate."
        return Verdict(n_wrong, n_uncertain, float("nan"), (found, kept_by, _CHECK))
    some = f"{n_wrong:,} of {n:,}" if n_wrong else f"None of {n:,}"
    found = f"{some} labels {'fits' if n_wrong == 1 else 'fit'} worse than another one."
    if selection.control in DOUBTING:
        found = f"{some} labels {_are(n_wrong)} probably wrong."
    more = "more " if n_wrong else ""
    uncertain = f"{n_uncertain:,} {more}{_are(n_uncertain)} uncertain" if n_uncertain else ""
    right = f"{n - n_wrong - n_uncertain:,}"
    if not kept.any():
        counts = (
            f"{uncertain}. None can be kept at an error rate of {percent(asked_rate(selection))}."
        )
        counts = counts.removeprefix(". ")
    elif n_uncertain:
        counts = f"{uncertain}, {right} look right."
    else:
        counts = f"The other {right} look right." if n_wrong else "All look right."
    if selection.manifest.method == "DoubtSelector":
        # It knows of no other label, and of no chance.
        n_suspects = int((~kept).sum())
        found = f"{n_suspects:,} of {n:,} labels {_are(n_suspects)} suspects."
        counts = f"The other {n - n_suspects:,} look right."
    share, expectation = _expectation(selection, int((wrong & kept).sum()))
    return Verdict(n_wrong, n_uncertain, share, (found, counts, *expectation))


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _expectation(selection: Selection, n_both: int) -> tuple[float, tuple[str, ...]]:
    """Return the share of wrong labels among the kept ones, and sentences about it.

    `n_both` labels are probably wrong, and kept all the same.
    """
    n_kept, asked = int(selection.clean_mask.sum()), asked_rate(selection)
    if not n_kept:
        return float("nan"), ("Check 100 rows, or ask for a larger error rate.",)
    share = estimated_share(selection)
    those = "only those"
    if n_both:
        every = "all " if n_kept == len(selection) else ""
        ones = "one" if n_both == 1 else "ones"
        those = f"{every}{n_kept:,}, {n_both:,} probably wrong {ones} among them"
    if has_checks(selection):
        found = selection.estimates()
        value, low, high = map(_rounded, (found.fsr.value, found.fsr.low, found.fsr.high))
        words = f"Keep {those}: about {value} of them are wrong (95 %: {low} to {high})"
        return found.fsr.value, (f"{words}, by {found.n_checked:,} checked rows.",)
    if np.isnan(share):
        words = f"{n_kept:,} are kept; how many of them are wrong is not estimated."
        return share, (words, _CHECK)
    comma = "," if n_both else ""
    words = f"Keep {those}{comma} and expect about {_rounded(share)} wrong"
    why = "the network has seen these labels" if selection.manifest.seen_labels else None
    if NOT_HELD in selection.cut_groups.status:
        why = "by the chances of single labels, that is too low"
    if why is not None:
        words = f"Keep {those}{comma} and expect more than {_rounded(share)} wrong: {why}"
    elif selection.doubt_by_people is not None and ends(selection).by_people > 1.02 * share:
        words += f", up to {_rounded(ends(selection).by_people)} {_if_people(selection)}"
    if asked is not None and share > 1.02 * asked:
        words += f"; {percent(asked)} was asked for"
    fell_back = selection.cut_groups.n_kept[selection.cut_groups.status == "fallback"].sum()
    if fell_back:
        words += f"; {fell_back:,} of them have no estimate"
    return share, (f"{words}.", _CHECK)


def _if_people(selection: Selection) -> str:
    crowd = selection.control == "annotators"
    return "if annotators err together" if crowd else "if people made the labels"


def _rounded(share: float) -> str:
    """Return a share in percent, to the two digits that an estimate is worth."""
    return percent(float(f"{share:.2g}"))


def doubted_rows(selection: Selection) -> np.ndarray:
    """Return the rows to look at, the worst first: suspects, then kept rows probably wrong.

    Without a chance of being wrong, suspects only.
    """
    if selection.control not in DOUBTING:
        return selection.suspect_indices
    kept = np.flatnonzero(selection.clean_mask & probably_wrong(selection))
    worst = kept[np.argsort(-selection.suspicion[kept], kind="stable")]
    return np.concatenate([selection.suspect_indices, worst])


def probably_wrong(selection: Selection) -> np.ndarray:
    """Return a mask of the labels that are probably wrong; other suspects are uncertain.

    With a doubt, it decides: above one half. Otherwise a label is probably wrong where another one
    fits better. The answer of a person decides in any case.
    """
    wrong = selection.suggested_code != selection.label_code
    if selection.control in DOUBTING:
        wrong = selection.doubt > 0.5
    checked = selection.checked
    if checked is not None:
        wrong[checked.rows] = ~checked.right & (checked.true_code != CANNOT_TELL)
    return np.asarray(wrong)


def has_checks(selection: Selection) -> bool:
    """Return whether checked rows say what the error rate is."""
    return selection.checked is not None and selection.checked.calibrate


def asked_rate(selection: Selection) -> float | None:
    """Return the error rate that was asked for; None where there is none, as for SPR."""
    # The same one everywhere.
    asked = selection.cut_groups.q_asked[:1]
    return None if np.isnan(asked).any() else float(asked[0])


def estimated_share(selection: Selection) -> float:
    """Return the estimated share of wrong labels among the kept ones; nan without an estimate.

    Over all thresholds with an estimate, weighted by the rows that they keep.
    """
    cut_groups = selection.cut_groups
    # np.average raises an error where all weights are zero.
    known = np.isfinite(cut_groups.estimated_fsr) & (cut_groups.n_kept > 0)
    if not known.any():
        return float("nan")
    return float(np.average(cut_groups.estimated_fsr[known], weights=cut_groups.n_kept[known]))


def basis(selection: Selection) -> str | None:
    """Return what the error rate rests on, in a few lines; None without an error rate."""
    if has_checks(selection) or selection.assumption is None:
        return selection.assumption
    if UNSEEN in selection.cut_groups.status:
        return _UNSEEN
    lines = [selection.assumption]
    if selection.doubt_by_people is not None and selection.clean_mask.any():
        lines.append(f"Wrong among the kept: {ends(selection)}")
    if selection.control in DOUBTING:
        by_model = selection.manifest.method == "ProbabilitySelector"
        unchecked = _UNCHECKED_MODEL if by_model else _UNCHECKED
        lines.append(_UNCHECKED_CROWD if selection.control == "annotators" else unchecked)
    return "\n".join(lines)


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
    if selection.control not in DOUBTING or has_checks(selection):
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
            classes=tuple(
                NoticeClass(
                    shorten(selection.classes[k], _LONGEST) or "(empty)",
                    f"{wrong[k]:,} of {size[k]:,} labels",
                )
                for k in listed[:MAX_LISTED]
            ),
            n_more=max(0, len(listed) - MAX_LISTED),
        ),
    )


def _uneven(selection: Selection) -> tuple[Notice, ...]:
    """Return the notice about classes that are cut by themselves, or should be, or none."""
    groups, kept = selection.cut_groups, selection.clean_mask
    together = groups.class_code < 0
    # A cut per class holds q in each; checks, and a model that has none, say nothing of classes.
    if selection.control not in DOUBTING or not together.any():
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
            "q holds over all classes together. A rare class may then be kept as it is, however "
            "many of its labels are wrong.",
            "A fit at this q cuts these classes by themselves; cut='per_class' does it with all.",
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
            classes=tuple(
                NoticeClass(shorten(selection.classes[k], _LONGEST) or "(empty)", text)
                for k, text in zip(listed[:MAX_LISTED], detail, strict=False)
            ),
            n_more=max(0, len(listed) - MAX_LISTED),
        ),
    )


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
            classes=tuple(
                NoticeClass(
                    shorten(selection.classes[k], _LONGEST) or "(empty)",
                    f"{hit[k]:,} {'row' if hit[k] == 1 else 'rows'}",
                )
                for k in listed[:MAX_LISTED]
            ),
            n_more=max(0, len(listed) - MAX_LISTED),
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
    shown = tuple(
        NoticeClass(
            shorten(selection.classes[k], _LONGEST) or "(empty)",
            _detail(selection, status, int(hit[k]), int(size[k]), worst[k]),
        )
        for k in listed[:MAX_LISTED]
    )
    where = _of_classes(len(listed), len(selection.classes))
    return Notice(
        status=status,
        headline=f"{_HEADLINE[status]} in {where} ({np.count_nonzero(mask):,} rows)",
        meaning=_MEANING[status],
        help=_WITHOUT_RATE[status] if status in _WITHOUT_RATE else _help(selection, affected),
        classes=shown,
        n_more=len(listed) - len(shown),
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


@dataclass(frozen=True, repr=False)
class Ends:
    """The share of wrong labels among the kept ones, under either kind of mistake."""

    by_class: float
    """If mistakes depend on the class only."""
    by_people: float
    """If people mistake what looks alike."""

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return (
            f"{percent(self.by_class)} if mistakes depend on the class only, about "
            f"{percent(self.by_people)} if people mistake what looks alike."
        )


def ends(selection: Selection) -> Ends:
    """Return both ends for the labels that are kept and that nobody has checked."""
    by_class, by_people = selection.doubt_by_class, selection.doubt_by_people
    if by_class is None or by_people is None:
        raise InputError(
            "This needs a model of the noise, which only control='people' and 'transition' "
            f"estimate, got {selection.control!r}."
        )
    kept = selection.clean_mask.copy()
    if selection.checked is not None:
        kept[selection.checked.rows] = False
    # As a share of all that is kept: what a person has checked and kept is right.
    n_kept = int(selection.clean_mask.sum())
    if not n_kept:
        return Ends(float("nan"), float("nan"))
    wrong = [float(np.sum(column[kept], dtype=np.float64)) for column in (by_class, by_people)]
    kind = CrowdEnds if selection.control == "annotators" else Ends
    return kind(wrong[0] / n_kept, wrong[1] / n_kept)


class CrowdEnds(Ends):
    """The same where there are several annotators: independent ones, or all of them one person."""

    def __str__(self) -> str:
        return (
            f"{percent(self.by_class)} if annotators err independently, about "
            f"{percent(self.by_people)} if they err together."
        )
