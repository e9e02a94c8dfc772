"""Whether a run may pass: few enough wrong labels, enough kept, and no worse than an earlier run.

A run is compared with the data as it is now, and its rate counts for what it rests on. What a run
says of itself is not enough for that: its answers are applied again when it is loaded, and its draw
is computed again here.
"""

from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args
from xml.etree import ElementTree

import numpy as np

from kspr._files import write_text
from kspr._text import percent, shorten, visible
from kspr.core.labels import places_in
from kspr.core.shares import clopper_pearson_interval, fisher_exact
from kspr.errors import InputError, UnreadableItemError
from kspr.runs.draws import drawable
from kspr.runs.run import Run, load_run
from kspr.runs.select import votes_have_changed
from kspr.selectors import Selection
from kspr.selectors.options import NOT_HELD, UNSEEN
from kspr.selectors.validation import check_rate

Evidence = Literal["checked", "declared", "estimated"]
"""What a rate may rest on: rows drawn by `kspr verify` and checked; rows of which the user says
that they were drawn at random; or an estimate that needs an assumption on the noise."""
_NO_RATE = ("paper", "theorem")
"""Controls whose estimate holds no error rate on real features."""
_RISK = 0.05
"""Chance that an equally good batch is called worse, over all comparisons together."""
_LONGEST = 40
"""Longest name of a class, in characters."""


@dataclass(frozen=True)
class Claim:
    """The rate of a run, its evidence, and a sentence about both."""

    evidence: Evidence | None
    bound: float | None
    sentence: str


@dataclass(frozen=True)
class Requirement:
    """One thing that is asked of a run, whether it is met, and why, in a sentence."""

    name: str
    met: bool
    sentence: str


@dataclass(frozen=True)
class Comparison:
    """Wrong labels among checked rows, of two runs; of one class, or of all (`label` is None)."""

    label: Any
    n: int
    n_wrong: int
    interval: tuple[float, float]
    """Of the share of wrong labels: Clopper and Pearson's, of 95 %."""
    n_before: int
    n_wrong_before: int
    interval_before: tuple[float, float]
    p_value: float
    """Chance of so many wrong ones in a batch that is no worse, times the number of comparisons."""


@dataclass(frozen=True)
class Gate:
    """What was asked of a run, and whether all of it is met."""

    requirements: tuple[Requirement, ...]
    evidence: Evidence | None
    """Evidence for the rate; None without a rate that could be used."""
    bound: float | None
    """Largest share of wrong labels among the kept ones, by that evidence."""
    n: int
    n_kept: int
    comparisons: tuple[Comparison, ...]

    @property
    def passed(self) -> bool:
        """Whether all requirements are met."""
        return all(requirement.met for requirement in self.requirements)


def gate_run(
    folder: Path,
    *,
    max_wrong: float,
    min_kept: float,
    evidence: Evidence = "checked",
    confidence: float = 0.95,
    against: Path | None = None,
    source: Path | None = None,
) -> Gate:
    """Judge the run in `folder`; raise `InputError` if it, or the data, cannot be read.

    `confidence` is the least that a guarantee other than ``mean`` must have.
    `against` is an earlier run, and `source` the place of the data if it has moved.
    """
    check_rate("--max-wrong", max_wrong)
    check_rate("--confidence", confidence)
    # 1 is allowed, nan is not.
    if not 0 < min_kept <= 1:
        raise InputError(f"--min-kept must lie in (0, 1], got {min_kept}. Write 0.8 for 80 %.")
    if against is not None and against.resolve() == folder.resolve():
        raise InputError("--against names the run itself; name an earlier one.")
    run = load_run(folder, source)
    claim = claim_of(run, confidence)
    n, n_kept = len(run.selection), int(run.selection.clean_mask.sum())
    share = n_kept / n
    enough = Requirement(
        "kept labels",
        n_kept > 0 and share >= min_kept,
        f"{n_kept:,} of {n:,} labels are kept ({percent(share)}). At least {percent(min_kept)} "
        "are asked for.",
    )
    asked = [_same_data(run), _few_wrong(claim, max_wrong, evidence), enough]
    comparisons: tuple[Comparison, ...] = ()
    if against is not None:
        comparisons, no_worse = _no_worse(run, load_run(against))
        asked += no_worse
    return Gate(tuple(asked), claim.evidence, claim.bound, n, n_kept, comparisons)


def write_junit(path: Path, gate: Gate) -> None:
    """Write the requirements as test cases, in the XML that CI services show."""
    failed = [requirement for requirement in gate.requirements if not requirement.met]
    about = {"name": "kspr gate", "tests": str(len(gate.requirements))}
    suite = ElementTree.Element("testsuite", {**about, "failures": str(len(failed))})
    for requirement in gate.requirements:
        # XML cannot hold control characters, which names of classes may have.
        case = ElementTree.SubElement(
            suite, "testcase", classname="kspr.gate", name=visible(requirement.name)
        )
        if not requirement.met:
            ElementTree.SubElement(case, "failure", message=visible(requirement.sentence))
    ElementTree.indent(suite)
    text = ElementTree.tostring(suite, encoding="unicode", xml_declaration=False)
    write_text(path, f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n')


def _same_data(run: Run) -> Requirement:
    """Return whether the data of the run is as it was."""
    # Without the data nothing can be said; this names the way out.
    run.records()
    notes, items = list(run.notes()), run.items()
    # Joining by id does not read images, and a gate should not take a file name for an image.
    if items is not None and items.kind != "text":
        try:
            deque(items.content(), maxlen=0)
        except UnreadableItemError as error:
            notes.append(str(error))
    if votes_have_changed(run):
        notes.append("The annotators' labels are not what the run was made from.")
    return Requirement(
        "same data", not notes, " ".join(notes) or f"All {len(run.rows):,} rows are as they were."
    )


def claim_of(run: Run, confidence: float) -> Claim:
    """Return the rate of a run; `confidence` is the least that a guarantee with one must have."""
    fitted, checks, checked = run.fitted, run.checks, run.selection.checked
    # Whoever has looked at a few rows of a draw and did not like them has no estimate any more.
    if checks is None or not checks.reached:
        return _estimate(fitted, run.selection)
    lack = lack_of(run, confidence)
    if lack is not None:
        return Claim(None, None, lack)
    assert checked is not None  # noqa: S101 - there are answers
    first = drawable(fitted, checks)[: len(checks.positions)]
    # Whether these are the first rows of the draw, as `kspr verify` makes it.
    redrawn = set(first.tolist()) == set(checks.positions)
    how = "drawn by kspr" if redrawn else "declared to be drawn at random"
    sure = "on average over such draws"
    if checks.guarantee != "mean":
        sure = f"with {checks.confidence:.0%} confidence"
    return Claim(
        "checked" if redrawn else "declared",
        checks.q,
        f"At most {percent(checks.q)} of the kept labels are wrong {sure}, by "
        f"{int(checked.counted.sum()):,} checked rows, {how}.",
    )


def lack_of(run: Run, confidence: float = 0.0) -> str | None:
    """Return why the answers of a run are no guarantee, in a sentence; None if they are one."""
    fitted, checks, checked = run.fitted, run.checks, run.selection.checked
    # Answers inside the selection, not beside it, have no draw that could be computed again.
    inside = fitted.checked is not None and fitted.checked.calibrate
    if inside or checks is None or checked is None or not checked.calibrate:
        done = "" if checks is None else checks.progress
        return done or "No rows that `kspr verify` drew at random are checked."
    if checks.guarantee != "mean" and checks.confidence < confidence:
        return (
            f"The checked rows were drawn for a confidence of {checks.confidence:g}, and "
            f"{confidence:g} is asked for (--confidence)."
        )
    return None


def _estimate(fitted: Selection, selection: Selection) -> Claim:
    """Return the rate that rests on an assumption, if the selection has one."""
    if fitted.checked is not None and fitted.checked.calibrate:
        # Its levels come from answers that cannot be counted again.
        return Claim(None, None, "The answers in it were not given to `kspr verify`.")
    if selection.manifest.seen_labels:
        return Claim(None, None, "Its network has seen the labels, and no rows are checked.")
    without = [s for s in (NOT_HELD, UNSEEN) if s in selection.cut_groups.status]
    if without:
        return Claim(None, None, f"No rows are checked, and its rate is {without[0]!r}.")
    if selection.q_value is None or selection.control is None or selection.control in _NO_RATE:
        method = selection.manifest.method if selection.control is None else selection.control
        return Claim(None, None, f"No rows are checked, and {method!r} holds no error rate.")
    # A fallback keeps rows that no level reaches: their q-value is infinite.
    bound = float(np.max(selection.q_value[selection.clean_mask], initial=0.0))
    return Claim(
        "estimated",
        bound,
        f"An estimated {percent(bound)} of the kept labels are wrong. {selection.assumption} No "
        "rows are checked.",
    )


def _few_wrong(claim: Claim, max_wrong: float, least: Evidence) -> Requirement:
    # The best first.
    kinds: tuple[Evidence | None, ...] = get_args(Evidence)
    if claim.bound is None or kinds.index(claim.evidence) > kinds.index(least):
        more = "" if claim.evidence is None else f" It counts with --evidence {claim.evidence}."
        sentence = f"There is no evidence of the kind {least!r}. {claim.sentence}{more}"
        return Requirement("wrong labels", False, sentence)
    # Not `bound > max_wrong`: nan must not pass.
    met = claim.bound <= max_wrong
    return Requirement("wrong labels", met, f"{claim.sentence} The limit is {percent(max_wrong)}.")


def _no_worse(new: Run, old: Run) -> tuple[tuple[Comparison, ...], list[Requirement]]:
    """Compare the wrong labels that people found in two runs, over all rows and class by class.

    What a fit estimates is not compared: it changes with the fit and the number of rows, and would
    call equally good batches worse.
    """
    for run in (new, old):
        lack = lack_of(run)
        if lack is not None:
            return (), [Requirement("no worse", False, f"{visible(run.folder)}: {lack}")]
    draws = [run.checks for run in (new, old)]
    now, then = (draw.q for draw in draws if draw is not None)
    if now != then:
        raise InputError(
            f"{new.folder} was checked for q = {now:g} and {old.folder} for q = {then:g}: what "
            "they keep cannot be compared. Draw with the same --q."
        )
    # Draws from all rows show all wrong labels; other draws show those that the fit would keep.
    whole = all(draw is not None and draw.drawn == "all" for draw in draws)
    classes = new.selection.classes
    counts = zip(
        [None, *classes.tolist()],
        _counts(new, classes, whole=whole),
        _counts(old, classes, whole=whole),
        strict=True,
    )
    compared = [count for count in counts if count[1][0] and count[2][0]]
    if not compared:
        sentence = "Neither run has checked rows among those that it would keep."
        return (), [Requirement("no worse", False, sentence)]
    comparisons = tuple(_comparison(*one, times=len(compared)) for one in compared)
    among = "all rows" if whole else "the rows kept without answers"
    return comparisons, [_requirement(comparison, among) for comparison in comparisons]


def _counts(run: Run, classes: np.ndarray, *, whole: bool) -> list[tuple[int, int]]:
    """Return how many rows were drawn and checked, and how many of them are wrong.

    First of all rows, or of those that the fit would keep without answers; then of each class.
    """
    fitted, checks, checked = run.fitted, run.checks, run.selection.checked
    assert checks is not None and checked is not None  # noqa: S101, PT018 - they lack nothing
    rows, wrong = checked.rows[checked.sampled], ~checked.right[checked.sampled]
    if not whole:
        kept = fitted.clean_mask if fitted.q_value is None else fitted.at(checks.q).clean_mask
        rows, wrong = rows[kept[rows]], wrong[kept[rows]]
    # A class that only the earlier run has is counted at the end, and left out.
    code = places_in(classes, fitted.label[rows]) % (len(classes) + 1)
    of_class = [np.bincount(k, minlength=len(classes) + 1)[:-1] for k in (code, code[wrong])]
    pairs = zip(*(counts.tolist() for counts in of_class), strict=True)
    return [(len(rows), int(wrong.sum())), *pairs]


def _comparison(
    label: Any, now: tuple[int, int], then: tuple[int, int], *, times: int
) -> Comparison:
    (n, n_wrong), (n_before, n_wrong_before) = now, then
    # Bonferroni: with a hundred classes, five would be called worse by chance.
    p_value = min(1.0, times * fisher_exact(n_wrong, n, n_wrong_before, n_before))
    return Comparison(
        label=label,
        n=n,
        n_wrong=n_wrong,
        interval=clopper_pearson_interval(n_wrong, n),
        n_before=n_before,
        n_wrong_before=n_wrong_before,
        interval_before=clopper_pearson_interval(n_wrong_before, n_before),
        p_value=p_value,
    )


def _requirement(comparison: Comparison, among: str) -> Requirement:
    name = (
        "all classes"
        if comparison.label is None
        else f"class {shorten(comparison.label, _LONGEST)}"
    )
    return Requirement(
        f"no worse: {name}",
        comparison.p_value > _RISK,
        f"{name}: {comparison.n_wrong:,} of {comparison.n:,} checked labels are wrong, and "
        f"{comparison.n_wrong_before:,} of {comparison.n_before:,} were before, among {among} "
        f"(p = {comparison.p_value:.2g}).",
    )
