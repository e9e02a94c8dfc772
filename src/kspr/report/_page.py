"""The page: facts, figures and cards, put into the template."""

import base64
import hashlib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from kspr.core.noise import KINDS
from kspr.report import _words
from kspr.report._cards import Contents, borderline_rows, judge
from kspr.report._checking import checking
from kspr.report._dial import dial, dial_figure
from kspr.report._facts import check, class_table, verdict
from kspr.report._next import next_steps
from kspr.report._noise import describe
from kspr.report._plots import class_histograms, histogram, path_figure
from kspr.report._suspects import matrix, suspect_list
from kspr.report._words import scale_of
from kspr.runs.draws import ToCheck
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
    to_check: ToCheck | None = None


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
    # First of all: a row that cannot be seen cannot be checked.
    rows = checking(selection, source.to_check, run, contents)
    # Before all suspects, which may use up the budget.
    near = borderline_rows(selection, max_borderline)
    borderline = judge(selection, near, source.row_id, source.truth).cards(contents, near)
    environment = _environment()
    # Messages name parameters; the page of a run that a command made names its flags.
    environment.filters["said"] = str if run is None else in_flags
    scripts = [_file(environment, "script.js")]
    if rows is not None:
        scripts.append(_file(environment, "checking.js"))
    return environment.get_template("report.html").render(
        title=title,
        command=command,
        style=_look() + _file(environment, "style.css") + _file(environment, "checking.css"),
        scripts=scripts,
        script_hashes=[_hash(script) for script in scripts],
        verdict=verdict(selection, summary),
        next_steps=next_steps(selection, run, command, contents.kind, rows.n if rows else 0),
        checking=rows,
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


def _file(environment: Environment, name: str) -> Markup:
    """Return a file beside the templates as it is: the page allows exactly this script."""
    assert environment.loader is not None  # noqa: S101 - set by `_environment`
    return Markup(environment.loader.get_source(environment, name)[0])  # noqa: S704 - our own file


def _look() -> Markup:
    """Return what all pages of this package look like."""
    return Markup((files("kspr") / "_look.css").read_text("utf-8"))  # noqa: S704 - our own file


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _draw(source: Source) -> dict[str, Any]:
    selection = source.selection
    # Without an error rate (the preset spr) there are no levels to compare.
    compares = selection.q_value is not None
    return {
        "histogram": histogram(selection),
        "classes": class_histograms(selection),
        "steps": dial(selection, source.truth) if compares else [],
        "dial": dial_figure(selection, source.truth) if compares else None,
        "path": None if source.features is None else path_figure(selection, source.features),
    }
