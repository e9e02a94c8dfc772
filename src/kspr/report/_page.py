"""The page: facts, figures and cards, put into the template."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from kspr.core.noise import KINDS
from kspr.report import _words
from kspr.report._cards import borderline_rows, make_cards
from kspr.report._dial import dial, dial_figure
from kspr.report._facts import check, class_table, verdict
from kspr.report._noise import describe, matrix
from kspr.report._notices import notices
from kspr.report._plots import class_histograms, histogram, path_figure
from kspr.report._words import scale_of
from kspr.runs.verify import Verification
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
    source: Source, title: str, command: str | None, max_suspects: int, max_borderline: int
) -> str:
    """Return the page as text."""
    selection, summary = source.selection, source.selection.summary()
    page = _environment().get_template("report.html")
    return page.render(
        title=title,
        command=command,
        verdict=verdict(selection, summary),
        check=None if source.truth is None else check(selection, source.truth),
        selfcheck=source.selfcheck,
        flips=KINDS,
        verification=source.verification,
        notices=notices(selection),
        scale=scale_of(selection),
        noise=describe(selection.noise),
        table=class_table(summary),
        status_meaning=STATUS_MEANING,
        manifest=selection.manifest,
        figures=_draw(source),
        suspects=_cards(source, selection.suspect_indices[:max_suspects]),
        borderline=_cards(source, borderline_rows(selection, max_borderline)),
    )


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("kspr.report", "templates"),
        # Labels and texts come from the data and may hold markup.
        autoescape=True,
        # A misspelt name in a template must fail, not vanish.
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        count=_words.count,
        level=_words.level,
        share=_words.share,
        number=_words.number,
        label=_words.name,
    )
    return environment


def _draw(source: Source) -> dict[str, Any]:
    selection = source.selection
    # Without an error rate (the preset spr) there are no levels to compare.
    compares = selection.q_value is not None
    grid, n_in_matrix = matrix(selection)
    return {
        "histogram": histogram(selection),
        "classes": class_histograms(selection),
        "steps": dial(selection, source.truth) if compares else [],
        "dial": dial_figure(selection, source.truth) if compares else None,
        "matrix": grid,
        "n_in_matrix": n_in_matrix,
        "path": None if source.features is None else path_figure(selection, source.features),
    }


def _cards(source: Source, rows: np.ndarray) -> list[Any]:
    return list(
        make_cards(
            source.selection, rows, row_id=source.row_id, items=source.items, truth=source.truth
        )
    )
