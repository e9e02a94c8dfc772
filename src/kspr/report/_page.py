"""The page: facts, figures and cards, put into the template."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kspr.core.coded import stored_of
from kspr.core.noise import KINDS
from kspr.report._cards import Contents, borderline_rows, judge
from kspr.report._dial import dial, dial_figure
from kspr.report._facts import check, class_table, verdict
from kspr.report._next import next_steps
from kspr.report._noise import describe
from kspr.report._plots import class_histograms, histogram, path_figure
from kspr.report._suspects import matrix, suspect_list
from kspr.report._template import environment, shared_parts
from kspr.report._words import scale_of
from kspr.runs.verify import Verification
from kspr.selectors.options import in_flags
from kspr.selectors.selection import Selection
from kspr.selectors.selfcheck import SelfCheck
from kspr.selectors.summary import STATUS_MEANING
from kspr.sources.records import Items

__all__ = ["Source", "render"]


@dataclass(frozen=True)
class Source:
    """A selection, and what is known about its rows."""

    selection: Selection
    row_id: np.ndarray | None = None
    items: Items | None = None
    features: Any = None
    truth: np.ndarray | None = None
    selfcheck: SelfCheck | None = None
    verification: Verification | None = None


def render(
    source: Source,
    title: str,
    command: str | None,
    run: Path | None,
    megabytes: float,
    max_borderline: int,
) -> str:
    """Return the page as text."""
    selection, summary = source.selection, source.selection.summary()
    contents = Contents(source.items, megabytes * 1e6)
    # Before all suspects, which may use up the budget.
    near = borderline_rows(selection, max_borderline)
    borderline = judge(selection, near, source.row_id, source.truth).cards(contents, near)
    n_drawn = 0 if source.verification is None else source.verification.n_drawn
    templates = environment()
    # Messages name parameters; the page of a run that a command made names its flags.
    templates.filters["said"] = str if run is None else in_flags
    return templates.get_template("report.html").render(
        title=title,
        command=command,
        **shared_parts(templates, ["style.css"], ["common.js", "script.js"]),
        verdict=verdict(selection, summary),
        next_steps=next_steps(selection, run, command, contents.kind, n_drawn),
        check=None if source.truth is None else check(selection, source.truth),
        selfcheck=source.selfcheck,
        flips=KINDS,
        verification=source.verification,
        notices=summary.notices,
        scale=scale_of(selection),
        noise=describe(selection.noise),
        table=class_table(summary),
        status_meaning=STATUS_MEANING,
        manifest=selection.manifest,
        figures=_draw(source),
        matrix=matrix(selection),
        suspects=suspect_list(selection, source.row_id, source.truth, contents),
        megabytes=f"{megabytes:g}",
        borderline=borderline,
    )


def _draw(source: Source) -> dict[str, Any]:
    selection = source.selection
    # Without an error rate (the preset spr) there are no levels to compare.
    compares = stored_of(selection, "q_value") is not None
    return {
        "histogram": histogram(selection),
        "classes": class_histograms(selection),
        "steps": dial(selection, source.truth) if compares else [],
        "dial": dial_figure(selection, source.truth) if compares else None,
        "path": None if source.features is None else path_figure(selection, source.features),
    }
