"""The verdict on a selection: how many labels are wrong, and what its error rate rests on.

Terminal, notebook, JSON and report show the same sentences.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kspr._text import percent
from kspr.errors import InputError
from kspr.selectors.checked import CANNOT_TELL
from kspr.selectors.options import NOT_HELD, UNSEEN

if TYPE_CHECKING:
    from kspr.selectors.selection import Selection

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
    if selection.doubt_is_chance:
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
        more = f"the error rate allows {n_both:,} of the probably wrong ones, too"
        those = f"{every}{n_kept:,} ({more})"
    if has_checks(selection):
        found = selection.estimates()
        value, low, high = map(_rounded, (found.fsr.value, found.fsr.low, found.fsr.high))
        words = f"Keep {those}: about {value} of them are wrong (95 %: {low} to {high})"
        return found.fsr.value, (f"{words}, by {found.n_checked:,} checked rows.",)
    if np.isnan(share):
        words = f"{n_kept:,} are kept; how many of them are wrong is not estimated."
        return share, (words, _CHECK)
    words = f"Keep {those} and expect about {_rounded(share)} wrong"
    why = "the network has seen these labels" if selection.manifest.seen_labels else None
    if NOT_HELD in selection.cut_groups.status:
        why = "by the chances of single labels, that is too low"
    if why is not None:
        words = f"Keep {those} and expect more than {_rounded(share)} wrong: {why}"
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
    if not selection.doubt_is_chance:
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
    if selection.doubt_is_chance:
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
    estimate, n_kept = cut_groups.estimated_fsr, cut_groups.n_kept
    # np.average raises an error where all weights are zero.
    known = np.isfinite(estimate) & (n_kept > 0)
    if not known.any():
        return float("nan")
    rest = cut_groups.class_code < 0
    if selection.doubt_is_chance and rest.any() and not rest.all():
        # The levels of the rest count the classes, too, that are cut by themselves.
        group, kept = selection.cut_group, selection.clean_mask
        wrong = np.bincount(group[kept], selection.doubt[kept], len(estimate))
        mean = wrong / np.maximum(n_kept, 1)
        estimate = np.where(rest, np.minimum(estimate, mean), estimate)
    return float(np.average(estimate[known], weights=n_kept[known]))


def basis(selection: Selection) -> str | None:
    """Return what the error rate rests on, in a few lines; None without an error rate."""
    if has_checks(selection) or selection.assumption is None:
        return selection.assumption
    if UNSEEN in selection.cut_groups.status:
        return _UNSEEN
    lines = [selection.assumption]
    if selection.doubt_by_people is not None and selection.clean_mask.any():
        lines.append(f"Wrong among the kept: {ends(selection)}")
    if selection.doubt_is_chance:
        by_model = selection.manifest.method == "ProbabilitySelector"
        unchecked = _UNCHECKED_MODEL if by_model else _UNCHECKED
        lines.append(_UNCHECKED_CROWD if selection.control == "annotators" else unchecked)
    return "\n".join(lines)


_MANY_POINTS = 0.01
"""Standard error of a rate from which on it is told."""


@dataclass(frozen=True, repr=False)
class Ends:
    """The share of wrong labels among the kept ones, under either kind of mistake."""

    by_class: float
    """If mistakes depend on the class only."""
    by_people: float
    """If people mistake what looks alike."""
    error: float = 0.0
    """Standard error of the share of one selection: by chance, and by that of the noise rate."""

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return (
            f"{percent(self.by_class)} if mistakes depend on the class only, about "
            f"{percent(self.by_people)} if people mistake what looks alike.{self._by_chance()}"
        )

    def _by_chance(self) -> str:
        if not self.error >= _MANY_POINTS:
            return ""
        return f" With so few rows it may well be {100 * self.error:.1f} points more."


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
    chance = by_people[kept].astype(np.float64)
    error = float(np.sqrt(np.sum(chance * (1.0 - chance))))
    if selection.noise is not None:
        # Wrong labels that are kept are as many, in proportion, as all that are wrong.
        error = float(np.hypot(error, wrong[1] * _relative_error(selection.noise.rate, len(kept))))
    return kind(wrong[0] / n_kept, wrong[1] / n_kept, error / n_kept)


def _relative_error(rate: float, n_rows: int) -> float:
    """Return the standard error of an estimated noise rate, over the rate itself."""
    # As in the model of the noise: the clear rows tell of it, an eighth of all.
    return float(np.sqrt(8.0 * (1.0 - rate) / (max(rate, 1.0 / n_rows) * n_rows)))


class CrowdEnds(Ends):
    """The same where there are several annotators: independent ones, or all of them one person."""

    def __str__(self) -> str:
        return (
            f"{percent(self.by_class)} if annotators err independently, about "
            f"{percent(self.by_people)} if they err together.{self._by_chance()}"
        )
