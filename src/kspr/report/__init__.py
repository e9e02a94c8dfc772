"""The report: one HTML file to read, print and pass on.

`write_report` takes a `Selection`; `kspr.report.run_report.report_run` takes the folder of a run.
"""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kspr._files import write_text
from kspr._packages import require
from kspr.errors import InputError

# The review page shows contents as the report does, and must start without scikit-learn.
if TYPE_CHECKING:
    from kspr.runs.verify import Verification
    from kspr.selectors.selection import Selection
    from kspr.selectors.selfcheck import SelfCheck
    from kspr.sources.records import Items

__all__ = ["check_extra", "write_report"]


def write_report(
    selection: "Selection",
    path: Path,
    *,
    title: str,
    row_id: np.ndarray | None = None,
    items: "Items | None" = None,
    features: Any = None,
    truth: np.ndarray | None = None,
    selfcheck: "SelfCheck | None" = None,
    verification: "Verification | None" = None,
    command: str | None = None,
    run: Path | None = None,
    megabytes: float = 12.0,
    max_borderline: int = 24,
) -> Path:
    """Write `selection` as one self-contained HTML file, and return its path.

    The page lists all suspects, up to a quarter of a million. It loads nothing from the network,
    and equal arguments give equal bytes.

    Parameters
    ----------
    selection
        The selection to show.
    path
        File to write.
    title
        Title of the page.
    row_id
        Names of the rows; their numbers by default.
    items
        Images or texts for the cards.
    features
        The features that were selected from; without them there is no solution path.
    truth
        True labels, if they are known: the page then shows the true error rate too.
    selfcheck
        Result of `kspr.selfcheck` on the same data.
    verification
        Result of `kspr verify` for the same run.
    command
        The command that made the selection.
    run
        Folder of the run, for the commands on the page; without it they are Python.
    megabytes
        Largest size of all pictures and texts. The worst suspects have theirs first; the others
        are listed without.
    max_borderline
        Largest number of cards for kept rows near the cut-off.
    """
    for name, rows in (("row_id", row_id), ("items", items), ("truth", truth)):
        if rows is not None:
            _check_length(name, len(rows), len(selection))
    if features is not None:
        _check_length("features", features.shape[0], len(selection))
    if not 0 <= megabytes < math.inf:
        raise InputError(f"megabytes must be a number from 0 up, got {megabytes}.")
    check_extra()
    from kspr.report._page import render

    page = render(
        selection,
        title,
        row_id=row_id,
        items=items,
        features=features,
        truth=truth,
        selfcheck=selfcheck,
        verification=verification,
        command=command,
        run=run,
        megabytes=megabytes,
        max_borderline=max_borderline,
    )
    write_text(Path(path), page)
    return Path(path)


def _check_length(name: str, n: int, expected: int) -> None:
    if n != expected:
        raise InputError(f"{name} has {n:,} rows but the selection has {expected:,}.")


def check_extra() -> None:
    """Raise `MissingExtraError` if the packages that draw and fill in pages are not installed."""
    for package in ("jinja2", "matplotlib"):
        require(package, "The report", "'knockoffs-spr[report]'")
