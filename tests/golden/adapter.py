"""Names of the library that the golden answers need.

The cases and the script use nothing else of the library: a change of names is a change of this
file only, and the same cases then run on old and on new code.
"""

from typing import Any

from kspr import (
    SPR,
    AnnotatorSelector,
    KnockoffsSPR,
    PaperKnockoffsSPR,
    ProbabilitySelector,
    Selection,
)

__all__ = [
    "SPR",
    "AnnotatorSelector",
    "KnockoffsSPR",
    "ProbabilitySelector",
    "Selection",
    "checked_by",
    "command",
    "comparing",
    "fit_on_dask",
    "paper",
]

QUIET: dict[str, Any] = {"progress": False}


def paper(**changes: Any) -> Any:
    """Return the selector with the paper's own choices."""
    return PaperKnockoffsSPR(**QUIET, **changes)


def comparing(control: str, **changes: Any) -> Any:
    """Return the paper's selector with one of its controls, unsplit."""
    whole = {"classes_per_group": None, "samples_per_class": None, "q": 0.05}
    usual = {"reduction": 128, "fit_intercept": True, "level": "fixed", "cut": "pooled"}
    return PaperKnockoffsSPR(control=control, **QUIET, **{**whole, **usual, **changes})


def checked_by(X: Any, y: Any, rows: Any, truth: Any, guarantee: str, q: float) -> Any:
    """Return the selection whose cut is moved by rows that were drawn from all rows."""
    selection = KnockoffsSPR(q, **QUIET).fit(X, y).selection_
    return selection.with_checks(rows, truth, q=q, guarantee=guarantee, drawn="all")


def fit_on_dask(client: Any, X: Any, y: Any, **choices: Any) -> Any:
    """Return the selection of a Dask collection, made by the workers of `client`."""
    return KnockoffsSPR(client=client, **QUIET, **choices).fit(X, y).selection_


def command(*arguments: object) -> None:
    """Run a command line in this process."""
    from kspr.cli import main

    main([str(argument) for argument in arguments])
