"""The page of a selection: facts, figures and cards, put into the template; and what to do next."""

import math
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from kspr._figures import drawn
from kspr._text import percent, visible
from kspr.report._cards import borderline_rows, cards_of, copy_sets, matrix, suspect_list
from kspr.report.contents import Contents, environment, level, scale_of, share, shared_parts
from kspr.report.plots import (
    LEVELS,
    average_flip,
    confusion_size,
    dial,
    draw_confusion,
    draw_curve,
    draw_doubt,
    largest_flips,
    tile_classes,
)
from kspr.runs.draws import DEFAULT_CHECKS
from kspr.runs.evaluate import evaluate
from kspr.selectors import Selection
from kspr.selectors.flips import KINDS
from kspr.selectors.options import DEFAULT_Q
from kspr.selectors.summary import STATUS_MEANING, Summary
from kspr.selectors.verdict import doubted_rows, has_checks

if TYPE_CHECKING:
    from kspr.report import Shown

Tile = tuple[str, str, str]
"""Name, value and explanation of a number on top of a page."""


def render(selection: Selection, shown: "Shown") -> str:
    """Return the page as text."""
    summary, contents = selection.summary(), Contents(shown.items, shown.megabytes * 1e6)
    # Before all suspects, which may use up the budget.
    near = borderline_rows(selection, shown.max_borderline)
    borderline = cards_of(selection, near, contents, shown.row_id, shown.truth)
    copies = copy_sets(selection, contents, shown.row_id)
    rows = summary.per_class
    if len(summary.most_suspect) < len(rows):
        rows = tuple(sorted(rows, key=lambda row: row.worst_first))
    n_drawn = 0 if shown.verification is None else shown.verification.n_drawn
    templates = environment()
    return templates.get_template("report.html").render(
        title=shown.title,
        command=shown.command,
        **shared_parts(templates, ["style.css"], ["common.js", "script.js"]),
        summary=summary,
        tiles=tiles(selection, summary),
        next_steps=next_steps(selection, shown.run, contents.kind, n_drawn),
        check=None if shown.truth is None else evaluate(selection, shown.truth),
        selfcheck=shown.selfcheck,
        flips=KINDS,
        verification=shown.verification,
        scale=scale_of(selection),
        noise=selection.noise,
        rows=rows,
        status_meaning=STATUS_MEANING,
        manifest=selection.manifest,
        figures=_draw(selection, shown.truth),
        matrix=matrix(selection),
        suspects=suspect_list(selection, shown.row_id, shown.truth, contents),
        megabytes=f"{shown.megabytes:g}",
        borderline=borderline,
        copies=copies,
    )


def _draw(selection: Selection, truth: np.ndarray | None) -> dict[str, Any]:
    figures: dict[str, Any] = {
        "histogram": drawn(
            "histogram",
            "Histogram of the statistic, kept rows and suspects",
            (390, 240),
            draw_doubt,
            selection,
        ),
        "steps": [],
        "noise": None,
    }
    # Without an error rate (the preset spr) there are none to compare.
    if selection.q_value is not None:
        words = "Estimated error rate against the share of rows kept"
        figures["steps"] = dial(selection, truth)
        figures["dial"] = drawn("dial", words, (390, 240), draw_curve, selection, truth)
    if selection.noise is not None and selection.noise.transition.size:
        figures["noise"] = noise_figure(selection)
        figures["flips"] = largest_flips(selection.noise)
        figures["average_flip"] = average_flip(selection.noise)
        figures["n_tiles"] = len(tile_classes(selection.noise))
    return figures


def noise_figure(selection: Selection) -> Markup:
    """Return the tiles of the estimated noise."""
    noise = selection.noise
    assert noise is not None  # noqa: S101 - asked for only where there is one
    words = "Chance of each label for each true class, in percent"
    return drawn("noise", words, confusion_size(noise), draw_confusion, noise)


def tiles(selection: Selection, summary: Summary) -> list[Tile]:
    """Return the numbers on top of the page."""
    found, scale = summary.verdict, scale_of(selection)
    kept = f"{share(summary.n_kept / summary.n)} of {summary.n:,} rows"
    both = summary.n_kept + found.n_probably_wrong + found.n_uncertain - summary.n
    if both:
        kept += f", {both:,} of them probably wrong"
    rate: Tile = ("error rate (q)", "none", "not estimated")
    if summary.q_asked is not None:
        sub = "assumed, not yet checked by a person"
        if selection.checked is not None and has_checks(selection):
            sub = f"measured by {int(selection.checked.counted.sum()):,} checked rows"
        elif summary.q_reached > summary.q_asked * (1 + 1e-9):
            sub = f"reached: {level(summary.q_reached)}"
        rate = ("error rate (q)", level(summary.q_asked), sub)
    return [
        ("probably wrong", f"{found.n_probably_wrong:,}", scale.probably_wrong),
        ("uncertain", f"{found.n_uncertain:,}", "may well be right"),
        ("kept", f"{summary.n_kept:,}", kept),
        rate,
    ]


@dataclass(frozen=True)
class Step:
    """One thing to do: its name, what it gives, and the command."""

    title: str
    gain: str
    commands: tuple[str, ...]
    """One, or ways to do the same."""


def next_steps(
    selection: Selection, run: Path | None, kind: str | None, n_drawn: int = 0
) -> list[Step]:
    """Return what to do with the selection: check, fix, export.

    `run` is the folder of the run; without one, the commands are Python. `kind` says whether its
    rows are images, and `n_drawn` how many of them have been drawn for a person to check.
    """
    steps = [_check(selection, run, n_drawn)]
    if selection.clean_mask.any():
        steps += [_leave_out(selection, run, kind), _fix(selection, run, kind), _export(run, kind)]
    else:
        # There is nothing to export, and a larger error rate comes first.
        steps.insert(0, _larger_rate(selection, run))
    if selection.manifest.parameters.get("q") is None and run is not None:
        gain = "SPR keeps a fixed share, and cannot say how many of the kept labels are wrong."
        again = f"kspr select SOURCE --q {DEFAULT_Q:g} --out {_quoted(Path(f'{run}-q'))}"
        steps.append(Step("Ask for an error rate", gain, (again,)))
    return [step for step in steps if step is not None]


def _check(selection: Selection, run: Path | None, n_drawn: int) -> Step | None:
    asked = selection.manifest.parameters.get("q")
    if asked is None:
        return None
    checked = has_checks(selection)
    title = "Check more rows" if checked else f"Check {DEFAULT_CHECKS} rows"
    gain = (
        "With more checked rows, more labels can be kept at the same error rate."
        if checked
        else f"After that, {percent(asked)} is measured rather than assumed."
    )
    if run is None:
        rows = f"rows = selection.draw_checks({DEFAULT_CHECKS})"
        return Step(title, gain, (rows, "selection.with_checks(rows, true_labels)"))
    # Both go on with the draw; the number of checks is that of all of them.
    n = (n_drawn if checked else 0) + DEFAULT_CHECKS
    # The first draw has written a file under the default name, which holds answers.
    out = f" --out {_quoted(Path(f'{run}-more-checks.csv'))}" if checked else ""
    return Step(
        title,
        f"{gain} On a page in your browser, or in a CSV file to fill in:",
        (
            f"kspr review {_quoted(run)}{f' --checks {n}' if checked else ''}",
            f"kspr verify {_quoted(run)} --checks {n}{out}",
        ),
    )


def _leave_out(selection: Selection, run: Path | None, kind: str | None) -> Step | None:
    """Return the step to an error rate that keeps no label that is probably wrong."""
    listed = doubted_rows(selection)
    both = listed[selection.clean_mask[listed]]
    if selection.q_value is None or has_checks(selection) or not len(both):
        return None
    smallest = float(selection.q_value[both].min())
    if not 0 < smallest < 1:
        return None
    # To three digits, and below: at the level itself the first of them is kept.
    scale = 10.0 ** (2 - math.floor(math.log10(smallest)))
    q = (math.ceil(smallest * scale) - 1) / scale
    n_kept = int((selection.q_value <= q).sum())
    if not n_kept:
        return None
    gain = f"q = {level(q)} keeps none of the {len(both):,}, and {n_kept:,} labels in all."
    again = f"selection.at({q:g})"
    if run is not None:
        again = f"kspr export {_quoted(run)} --q {q:g} {_place('clean', kind)}"
    return Step("Leave out what is probably wrong", gain, (again,))


def _place(name: str, kind: str | None) -> str:
    """Return the flags of an export that say where to, by the kind of the rows."""
    return f"--to imagefolder --out {name}" if kind == "image" else f"--out {name}.parquet"


def _fix(selection: Selection, run: Path | None, kind: str | None) -> Step | None:
    if selection.suggestion_probability is None or selection.clean_mask.all():
        return None
    gain = "Gives suspects the suggested label where that is probably right."
    if run is None:
        return Step("Fix the suspects", gain, ("selection.relabel().label",))
    command = f"kspr export {_quoted(run)} --suspects relabel {_place('fixed', kind)}"
    return Step("Fix the suspects", f"{gain} The others are left out.", (command,))


def _export(run: Path | None, kind: str | None) -> Step:
    gain = "Writes the kept rows to a new place; the source is not changed."
    if run is None:
        gain = "The kept rows; the arrays are not changed."
        return Step("Export what is kept", gain, ("X[selection.clean_mask]",))
    command = f"kspr export {_quoted(run)} {_place('clean', kind)}"
    return Step("Export what is kept", gain, (command,))


def _larger_rate(selection: Selection, run: Path | None) -> Step | None:
    """Return the step to the smallest error rate of the page at which something is kept."""
    if selection.q_value is None or has_checks(selection):
        return None
    q = next((q for q in LEVELS if (selection.q_value <= q).any()), None)
    if q is None:
        return None
    kept = int((selection.q_value <= q).sum())
    gain = f"q = {level(q)} would keep {kept:,} labels."
    again = f"selection.at({q:g})"
    if run is not None:
        again = f"kspr report {_quoted(run)} --q {q:g} --open"
    return Step("Try a larger error rate", gain, (again,))


def _quoted(path: Path) -> str:
    return visible(shlex.quote(str(path)))
