"""The page: facts, figures and cards, put into the template; and what to do next."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kspr._text import visible
from kspr.core.labels import same_label, truly_clean
from kspr.core.metrics import SelectionQuality, selection_quality
from kspr.report._cards import borderline_rows, cards_of, matrix, suspect_list
from kspr.report._noise import describe
from kspr.report._plots import (
    LEVELS,
    class_histograms,
    dial,
    dial_figure,
    histogram,
    path_figure,
    pooled_estimate,
)
from kspr.report._words import count, environment, level, scale_of, shared_parts
from kspr.report.contents import Contents
from kspr.runs.draws import DEFAULT_CHECKS
from kspr.runs.verify import Verification
from kspr.selectors.flips import KINDS
from kspr.selectors.options import DEFAULT_Q, UNSEEN
from kspr.selectors.selection import Selection
from kspr.selectors.selfcheck import SelfCheck
from kspr.selectors.summary import STATUS_MEANING, ClassSummary, Summary
from kspr.sources.records import Items

_WITH_VALUE = ("--q", "--out", "--clean-ratio")
_ALONE = ("--overwrite", "--json")
"""Flags of the first command that the next one sets itself, or leaves out."""


def render(
    selection: Selection,
    title: str,
    *,
    row_id: np.ndarray | None,
    items: Items | None,
    features: Any,
    truth: np.ndarray | None,
    selfcheck: SelfCheck | None,
    verification: Verification | None,
    command: str | None,
    run: Path | None,
    megabytes: float,
    max_borderline: int,
) -> str:
    """Return the page as text."""
    summary, contents = selection.summary(), Contents(items, megabytes * 1e6)
    # Before all suspects, which may use up the budget.
    near = borderline_rows(selection, max_borderline)
    borderline = cards_of(selection, near, contents, row_id, truth)
    n_drawn = 0 if verification is None else verification.n_drawn
    templates = environment()
    return templates.get_template("report.html").render(
        title=title,
        command=command,
        **shared_parts(templates, ["style.css"], ["common.js", "script.js"]),
        summary=summary,
        n_suspects=summary.n - summary.n_kept,
        verdict=verdict(selection, summary),
        next_steps=next_steps(selection, run, command, contents.kind, n_drawn),
        check=None if truth is None else check(selection, truth),
        selfcheck=selfcheck,
        flips=KINDS,
        verification=verification,
        scale=scale_of(selection),
        noise=describe(selection.noise),
        table=class_table(summary),
        status_meaning=STATUS_MEANING,
        manifest=selection.manifest,
        figures=_draw(selection, features, truth),
        matrix=matrix(selection),
        suspects=suspect_list(selection, row_id, truth, contents),
        megabytes=f"{megabytes:g}",
        borderline=borderline,
    )


def _draw(selection: Selection, features: Any, truth: np.ndarray | None) -> dict[str, Any]:
    # Without an error rate (the preset spr) there are no levels to compare.
    compares = selection.q_value is not None
    return {
        "histogram": histogram(selection),
        "classes": class_histograms(selection),
        "steps": dial(selection, truth) if compares else [],
        "dial": dial_figure(selection, truth) if compares else None,
        "path": None if features is None else path_figure(selection, features),
    }


@dataclass(frozen=True)
class Verdict:
    """The numbers at the head of the page, beside those of the summary."""

    summary: Summary
    estimate: float
    """Estimated FSR over all kept rows that have an estimate; nan without one."""
    n_unestimated: int
    """Kept rows without an estimate: those of cut groups that fell back."""
    n_empty: int
    """Suspects of cut groups in which nothing could be kept."""
    has_error_rate: bool
    n_checked: int
    """Number of checked rows that the error rate is computed from; 0 without."""
    seen_labels: bool
    """Whether the features come from a network that has seen the labels: then it does not hold."""

    @property
    def was_raised(self) -> bool:
        """Whether the mean level that was reached is above the one asked for."""
        asked = self.summary.q_asked
        # The mean of equal levels may be off by a rounding error.
        return asked is not None and self.summary.q_reached > asked * (1 + 1e-9)

    @property
    def q_shown(self) -> float | None:
        """The level to explain: the one reached if it was raised, else the one asked for."""
        return self.summary.q_reached if self.was_raised else self.summary.q_asked


@dataclass(frozen=True)
class ClassTable:
    """The table of classes: those to look at first, then the others."""

    rows: tuple[ClassSummary, ...]
    n_first: int
    """How many are shown at first."""
    statuses: tuple[str, ...]
    """Statuses to tell apart; empty where all classes have the same."""
    has_levels: bool
    """Whether the levels that were reached differ."""


@dataclass(frozen=True)
class Check:
    """The selection compared with true labels."""

    quality: SelectionQuality
    n_wrong: int
    n_wrong_kept: int
    n_wrong_suspects: int
    n_suggestions_right: int
    """Suspects with a wrong label whose suggested label is the true one."""


def verdict(selection: Selection, summary: Summary) -> Verdict:
    """Return the numbers at the head of the page."""
    fell_back = selection.cut_groups.status == "fallback"
    empty = selection.cut_groups.status == "empty"
    checked = selection.checked
    return Verdict(
        summary,
        estimate=pooled_estimate(selection),
        n_unestimated=int(selection.cut_groups.n_kept[fell_back].sum()),
        n_empty=int((selection.cut_groups.n - selection.cut_groups.n_kept)[empty].sum()),
        has_error_rate=selection.q_value is not None and UNSEEN not in selection.cut_groups.status,
        n_checked=0 if checked is None else int(checked.counted.sum()),
        seen_labels=selection.manifest.seen_labels and not (checked and checked.calibrate),
    )


def class_table(summary: Summary) -> ClassTable:
    """Return all classes; where the summary prints only some of them, these come first.

    A column that says the same in every row is left out.
    """
    rows, first = summary.per_class, summary.most_suspect
    if len(first) < len(rows):
        rows = tuple(sorted(rows, key=lambda row: row.n_kept - row.n))
    statuses = tuple(summary.cut_groups)
    # Levels that differ by rounding error only are the same.
    levels = {f"{row.q_reached:.9f}" for row in rows}
    return ClassTable(
        rows, len(first), statuses if len(statuses) > 1 else (), has_levels=len(levels) > 1
    )


def check(selection: Selection, truth: np.ndarray) -> Check:
    """Compare the selection with the true labels."""
    right = truly_clean(selection.label, truth)
    kept = selection.clean_mask
    caught = ~right & ~kept
    return Check(
        quality=selection_quality(kept, right),
        n_wrong=int((~right).sum()),
        n_wrong_kept=int((~right & kept).sum()),
        n_wrong_suspects=int(caught.sum()),
        n_suggestions_right=int((caught & same_label(selection.suggested_label, truth)).sum()),
    )


@dataclass(frozen=True)
class Step:
    """One thing to do: its name, what it gives, and the command."""

    title: str
    gain: str
    commands: tuple[str, ...]
    """One, or ways to do the same."""


def next_steps(
    selection: Selection,
    run: Path | None,
    command: str | None,
    kind: str | None,
    n_drawn: int = 0,
) -> list[Step]:
    """Return what to do with the selection, the most useful first.

    `run` is the folder of the run; without one, the commands are Python. `command` is the one that
    wrote the run, `kind` says whether its rows are images, and `n_drawn` how many of its rows have
    been drawn for a person to check.
    """
    again = _another_level(selection, run, command)
    # Where nothing is kept, there is nothing to export, and another level comes first.
    kept = selection.clean_mask.any()
    check = _check(selection, run, n_drawn)
    steps = [check, _export(run, kind), again] if kept else [again, check]
    return [step for step in steps if step is not None]


def _check(selection: Selection, run: Path | None, n_drawn: int) -> Step | None:
    if selection.manifest.parameters.get("q") is None:
        return None
    checked = selection.checked is not None and selection.checked.calibrate
    title = "Check more rows" if checked else f"Check {DEFAULT_CHECKS} rows"
    gain = (
        "With more checked rows, more labels can be kept at the same error rate."
        if checked
        else "Then the error rate holds for any noise, not only under an assumption."
    )
    if run is None:
        return Step(title, gain, ("selector.fit(X, y, checked=(rows, true_labels))",))
    # The page goes on with the draw; its number of checks is that of all of them.
    more = f" --checks {n_drawn + DEFAULT_CHECKS}" if checked else ""
    # The first draw has written a file under the default name, which holds answers.
    out = f" --out {_quoted(Path(f'{run}-more-checks.csv'))}" if checked else ""
    return Step(
        title,
        f"{gain} On a page in your browser, or in a CSV file to fill in:",
        (
            f"kspr review {_quoted(run)}{more}",
            f"kspr verify {_quoted(run)} --checks {DEFAULT_CHECKS}{out}",
        ),
    )


def _export(run: Path | None, kind: str | None) -> Step:
    gain = "Writes the kept rows to a new place; the source is not changed."
    if run is None:
        gain = "The kept rows; the arrays are not changed."
        return Step("Take the cleaned data", gain, ("X[selection.clean_mask]",))
    out = "--to imagefolder --out clean" if kind == "image" else "--out clean.parquet"
    return Step("Export the cleaned data", gain, (f"kspr export {_quoted(run)} {out}",))


def _another_level(selection: Selection, run: Path | None, command: str | None) -> Step | None:
    words = shlex.split(command or "")
    if run is not None and selection.checked is not None and selection.checked.calibrate:
        # Selecting again would leave the answers out, and keep other rows than counted here.
        return None
    if selection.q_value is None:
        by_doubt = selection.manifest.parameters.get("q") is not None
        if by_doubt or run is None or words[:2] != ["kspr", "select"]:
            return None
        gain = "SPR keeps a fixed share, and cannot say how many of the kept labels are wrong."
        again = _select_again(words, DEFAULT_Q, run)
        return Step("Ask for an error rate", gain, (again,))
    q = _level_to_try(selection)
    now, then = int(selection.clean_mask.sum()), int(selection.at(q).clean_mask.sum())
    gain = f"q = {level(q)} would keep {count(then)} labels; now {count(now)} are kept."
    if run is None:
        again = f"selection.at({q:g})"
    elif words[:2] == ["kspr", "select"]:
        again = _select_again(words, q, run)
    else:
        again = f"kspr.Selection.load({str(run)!r}).at({q:g})"
    return Step("Try another error rate", gain, (again,))


def _level_to_try(selection: Selection) -> float:
    """Return the next larger level that keeps clearly more, or else the next smaller one."""
    asked = float(selection.cut_groups.q_asked[0])
    kept = selection.clean_mask.sum()
    for q in LEVELS:
        if q > asked and selection.at(q).clean_mask.sum() > 1.02 * kept:
            return q
    return max((q for q in LEVELS if q < asked), default=LEVELS[0])


def _select_again(words: list[str], q: float, run: Path) -> str:
    """Return the command that wrote the run, at another level and to another folder."""
    again, skip = [], False
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if skip:
            skip = False
        elif word in _WITH_VALUE or (word, following) == ("--preset", "spr"):
            skip = True
        elif not (word in _ALONE or word.startswith(tuple(f"{flag}=" for flag in _WITH_VALUE))):
            again.append(word)
    again += ["--q", f"{q:g}", "--out", f"{run}-q{q:g}"]
    return visible(shlex.join(again))


def _quoted(path: Path) -> str:
    return visible(shlex.quote(str(path)))
