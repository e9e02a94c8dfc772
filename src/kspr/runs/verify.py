"""The answers of a person about rows that were drawn, and the threshold that they give."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import numpy as np

from kspr.core.shares import clopper_pearson_interval
from kspr.errors import InputError
from kspr.runs.answers import Answers, read_answers
from kspr.runs.checks import Checks, apply_checks, begin_checks, planned, write_checks
from kspr.runs.draws import check_q, check_same, forecast_of, n_needed
from kspr.runs.review_log import CANNOT_TELL, FILED, Opinion
from kspr.runs.run import Run, load_run
from kspr.selectors.checked import Drawn, Guarantee
from kspr.selectors.estimates import Estimates


@dataclass(frozen=True)
class Agreement:
    """Two people, and how they agree on the rows that both have answered."""

    one: str
    other: str
    n: int
    """Rows that both have answered."""
    share: float
    """Share of these with the same answer."""
    kappa: float | None
    """Cohen's kappa: 1 for full agreement, 0 for what chance would give. None where both gave one
    and the same answer to all rows, as chance then explains everything."""


@dataclass(frozen=True)
class Reviewed:
    """Who answered on the review page, and how far they agree."""

    reviewers: tuple[tuple[str, int], ...]
    """Names, and how many rows each has answered."""
    n_shared: int
    """Rows that several people have answered, the file of answers being one of them."""
    n_agreed: int
    """Rows among these to which all gave the same answer."""
    n_settled: int
    n_open: int
    """Rows on which people differ, or that they cannot tell, and that are not settled."""
    pairs: tuple[Agreement, ...] = ()
    """How far every two people agree who have rows in common."""


@dataclass(frozen=True)
class Verification:
    """The result of checked rows: wrong labels, and the kept rows before and after."""

    drawn: Drawn
    guarantee: Guarantee
    confidence: float
    q: float
    n_drawn: int
    n_counted: int
    """Answers that count for the guarantee, once the draw is finished."""
    n_wrong: int
    """Wrong ones among these, with those that nobody can tell."""
    n_cannot_tell: int
    """Of these, answered with a question mark, or passed over."""
    n_passed_over: int
    """Drawn rows without an answer that stand before the last answer: they count as wrong."""
    n_other: int
    """Answers that do not count: chosen rows, and rows outside of the pool."""
    n_rows: int
    n_kept_before: int
    """Rows that were kept at `q` without any answer."""
    n_checked_before: int
    """Answers that count among these."""
    n_wrong_before: int
    fsr_before: float
    """Share of wrong labels among what was kept without answers, as checked; nan without checks."""
    interval_before: tuple[float, float]
    """Clopper and Pearson's, exact, two-sided, of 95 %."""
    n_kept: int
    """Rows that are kept now."""
    estimates: Estimates | None
    """What the checked rows and the fit say together; None while they do not set the threshold."""
    forecast: tuple[tuple[int, float], ...]
    reviewed: Reviewed | None = None
    """None without answers from the review page."""
    notes: tuple[str, ...] = ()
    """Sentences for the user: how many checks are done, and whether they reach q."""

    @property
    def verdict(self) -> Literal["held", "not held", "cannot tell"]:
        """Whether the interval for what was kept before lies below `q`, above it, or around it."""
        low, high = self.interval_before
        return "held" if high <= self.q else "not held" if low > self.q else "cannot tell"


def verify_run(folder: Path, path: Path, declared: Drawn | None = None, **how: Any) -> Verification:
    """Move the threshold of the run in `folder` by the answers in `path`, and save these there.

    `declared` says how the rows were found where `path` was not made by `draw_checks`; `how` has
    then `q`, `guarantee` and `confidence`.
    """
    run = load_run(folder)
    fitted = run.fitted
    answers = read_answers(path, run.rows, fitted.label)
    before = _checks(run, path, answers, declared, how)
    checks = before.with_answers(answers.by_position, path)
    if not answers.given and checks.answers == before.answers:
        raise InputError(f"{path} has no answers yet: all of its rows are still to be checked.")
    selection = apply_checks(fitted, checks)
    write_checks(folder, checks)
    return _describe(replace(run, selection=selection, checks=checks))


def verification_of(run: Run) -> Verification | None:
    """Return the verification by the answers in a run; None without answers."""
    if run.checks is None or not run.checks.known:
        return None
    return _describe(run)


def _checks(
    run: Run, path: Path, answers: Answers, declared: Drawn | None, how: dict[str, Any]
) -> Checks:
    """Return the draw that the answers belong to."""
    before = run.checks
    nothing_drawn = before is None or not before.positions
    if declared is None and nothing_drawn and answers.drawn_from == "all":
        # The file itself declares it.
        declared = "all"
    given = {name: value for name, value in how.items() if value is not None}
    if declared == "chosen" and before is not None:
        return before
    if declared is not None:
        if declared != "chosen":
            check_q(run.folder, run.fitted, given)
            # Only the rows of this file are declared to be a random draw.
            given["positions"] = answers.sampled
        return begin_checks(run.fitted, declared, **given).with_answers_of(before)
    if before is None or nothing_drawn:
        raise InputError(
            f"No rows were drawn from {run.folder}, so it is not known how those in {path} were "
            "found. Say so: --drawn all if they were drawn at random from all rows, --drawn chosen "
            "if not."
        )
    check_same(run.folder, before, given)
    plan = planned(run.fitted, before)
    asked = [*before.asked, *([] if plan is None else plan.rows.tolist())]
    strange = np.setdiff1d(answers.given, asked)
    if strange.size:
        raise InputError(
            f"{path} has an answer for row {run.row[strange[0]]}, which was not drawn from "
            f"{run.folder}. For answers to other rows, add --drawn chosen."
        )
    return before


def checking_notes(run: Run) -> tuple[str, ...]:
    """Say how many checks of a run are done, and whether they reach q; empty without a draw."""
    checks, checked = run.checks, run.selection.checked
    if checks is None or not checks.positions:
        return ()
    plan = planned(run.fitted, checks)
    if plan is not None:
        return (plan.progress(sum(row in checks.known for row in plan.rows.tolist())),)
    groups = run.selection.cut_groups
    if checked is None or not checked.calibrate or "checked" in groups.status.tolist():
        return (checks.progress,)
    done = int(checked.counted.sum())
    more = n_needed(run.selection, checks, done)
    words = f"About {more - done:,} more checks reach it" if more else "Check more rows"
    return (
        checks.progress,
        f"q = {groups.q_asked[0]:g} was not reached: of the rows that nobody checked, none are "
        f"kept. {words}: kspr verify {run.folder} --checks {more or 2 * done}.",
    )


def _describe(run: Run) -> Verification:
    fitted, selection, checks = run.fitted, run.selection, run.checks
    assert checks is not None  # noqa: S101 - there are answers
    # What the answers come to is said also of a draw that is not finished.
    so_far = apply_checks(fitted, checks, unfinished=True)
    checked = so_far.checked
    counted = np.empty(0, dtype=np.int64) if checked is None else checked.rows[checked.counted]
    # Answers decide on their own rows.
    wrong = ~so_far.clean_mask[counted]
    before = fitted.clean_mask if fitted.q_value is None else fitted.at(checks.q).clean_mask
    kept = before[counted]
    n_checked, n_wrong = int(kept.sum()), int((kept & wrong).sum())
    passed = checks.n_left_empty
    unknown = sum(checks.known.get(p) == CANNOT_TELL for p in counted.tolist())
    moved = selection.checked is not None and selection.checked.calibrate
    return Verification(
        drawn=checks.drawn,
        guarantee=checks.guarantee,
        confidence=checks.confidence,
        q=checks.q,
        n_drawn=len(checks.positions) or len(checks.known),
        n_counted=len(counted),
        n_wrong=int(wrong.sum()),
        n_cannot_tell=unknown + passed,
        n_passed_over=passed,
        n_other=len({*checks.reached, *checks.known}) - len(counted),
        n_rows=len(selection),
        n_kept_before=int(before.sum()),
        n_checked_before=n_checked,
        n_wrong_before=n_wrong,
        fsr_before=n_wrong / n_checked if n_checked else float("nan"),
        interval_before=clopper_pearson_interval(n_wrong, n_checked),
        n_kept=int(selection.clean_mask.sum()),
        estimates=selection.estimates() if moved else None,
        forecast=forecast_of(so_far, checks, max(len(counted), len(checks.positions), 1)),
        reviewed=_reviewed(checks),
        notes=checking_notes(run),
    )


def _reviewed(checks: Checks) -> Reviewed | None:
    opinions = checks.opinions.values()
    if not opinions:
        return None
    answered = Counter(name for opinion in opinions for name in opinion.answers if name != FILED)
    shared = [set(opinion.answers.values()) for opinion in opinions if len(opinion.answers) > 1]
    return Reviewed(
        reviewers=tuple(sorted(answered.items())),
        n_shared=len(shared),
        n_agreed=sum(len(said) == 1 for said in shared),
        n_settled=sum(opinion.settled is not None for opinion in opinions),
        n_open=sum(opinion.is_open for opinion in opinions),
        pairs=tuple(agreements(opinions)),
    )


def agreements(opinions: Iterable[Opinion]) -> list[Agreement]:
    """Return the agreement of every pair of people who have rows in common.

    Whoever was asked rows twice makes a pair with themselves.
    """
    pairs: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for opinion in opinions:
        for one, other in combinations(sorted(opinion.answers), 2):
            said = opinion.answers[one], opinion.answers[other]
            pairs.setdefault((one, other), []).append(said)
        for name in sorted(opinion.repeated.keys() & opinion.answers.keys()):
            said = opinion.answers[name], opinion.repeated[name]
            pairs.setdefault((name, f"{name}, asked again"), []).append(said)
    return [
        Agreement(one, other, len(said), sum(a == b for a, b in said) / len(said), _kappa(said))
        for (one, other), said in sorted(pairs.items())
    ]


def _kappa(said: Sequence[tuple[str, str]]) -> float | None:
    from sklearn.metrics import cohen_kappa_score  # takes a second to import

    ones, others = zip(*said, strict=True)
    return None if len({*ones, *others}) == 1 else float(cohen_kappa_score(ones, others))
