"""Names of the library that the golden answers need, before and after a renaming.

The cases and the script use nothing else of the library: a change of names is a change of this
file only, and the same cases then run on old and on new code.
"""

from typing import Any

import numpy as np

import kspr
from kspr import SPR, AnnotatorSelector, KnockoffsSPR, ProbabilitySelector, Selection

__all__ = [
    "SPR",
    "AnnotatorSelector",
    "KnockoffsSPR",
    "ProbabilitySelector",
    "Selection",
    "checked_by",
    "command",
    "comparing",
    "doubt",
    "draw_checks",
    "duplicate_set",
    "fit_on_dask",
    "paper",
    "sensitivity",
]

QUIET: dict[str, Any] = {"progress": False}


def paper(**changes: Any) -> Any:
    """Return the selector with the paper's own choices."""
    if hasattr(kspr, "PaperKnockoffsSPR"):
        return kspr.PaperKnockoffsSPR(**QUIET, **changes)
    return KnockoffsSPR.paper(**QUIET, **changes)


def comparing(control: str, **changes: Any) -> Any:
    """Return the default selector with one of the paper's controls."""
    if hasattr(kspr, "PaperKnockoffsSPR"):
        # Unsplit, as the default was under these controls.
        whole = {"classes_per_group": None, "samples_per_class": None, "q": 0.05}
        usual = {"reduction": 128, "fit_intercept": True, "level": "fixed", "cut": "pooled"}
        return kspr.PaperKnockoffsSPR(control=control, **QUIET, **{**whole, **usual, **changes})
    return KnockoffsSPR(control=control, **QUIET, **changes)


def doubt(selection: Any) -> np.ndarray:
    """Return what one cut-off for all rows compares: small for rows to keep first."""
    if hasattr(selection, "doubt"):
        return np.asarray(selection.doubt)
    statistic = np.asarray(selection.statistic)
    if selection.control in (None, "transition", "annotators"):
        return statistic
    return np.where(statistic < 0, -statistic, np.inf)


def duplicate_set(selection: Any) -> np.ndarray | None:
    """Return the number of the set of duplicates of each row; None without any."""
    new = hasattr(selection, "duplicate_set")
    return selection.duplicate_set if new else selection.copies


def draw_checks(selection: Any, n: int, **choices: Any) -> np.ndarray:
    """Return rows for a person to check."""
    draw = selection.draw_checks if hasattr(selection, "draw_checks") else selection.draw
    return np.asarray(draw(n, **choices))


def sensitivity(selection: Any, times: float) -> float:
    """Return the error rate if hard rows are mislabelled more."""
    ask = selection.sensitivity if hasattr(selection, "sensitivity") else selection.rate_if
    return float(ask(times))


def checked_by(X: Any, y: Any, rows: Any, truth: Any, guarantee: str, q: float) -> Any:
    """Return the selection whose cut is moved by rows that were drawn from all rows."""
    selection = KnockoffsSPR(q, **QUIET).fit(X, y).selection_
    return selection.with_checks(rows, truth, q=q, guarantee=guarantee, drawn="all")


def fit_on_dask(client: Any, X: Any, y: Any, **choices: Any) -> Any:
    """Return the selection of a Dask collection, made by the workers of `client`."""
    if "engine" in KnockoffsSPR().get_params():
        choices["engine"] = "dask"
    return KnockoffsSPR(client=client, **QUIET, **choices).fit(X, y).selection_


def command(*arguments: object) -> None:
    """Run a command line in this process."""
    from kspr.cli import main

    main([str(argument) for argument in arguments])
