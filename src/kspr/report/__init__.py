"""The report: one HTML file to read, print and pass on.

`write_report` takes a `Selection`, `report_run` the folder of a run.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kspr._files import write_text
from kspr._packages import require
from kspr.errors import InputError

# The review page shows contents as the report does, and must start without scikit-learn.
if TYPE_CHECKING:
    from kspr.runs.verify import Verification
    from kspr.selectors import Selection
    from kspr.selectors.selfcheck import SelfCheck
    from kspr.sources.records import Items

__all__ = ["Shown", "check_extra", "report_run", "write_report"]


@dataclass(frozen=True, eq=False)
class Shown:
    """What a report shows beside its selection."""

    title: str
    row_id: np.ndarray | None = None
    """Names of the rows; their numbers by default."""
    items: "Items | None" = None
    """Images or texts for the cards."""
    truth: np.ndarray | None = None
    """True labels, if they are known: the page then shows the true error rate too."""
    selfcheck: "SelfCheck | None" = None
    """Result of `kspr.selfcheck` on the same data."""
    verification: "Verification | None" = None
    """Result of `kspr verify` for the same run."""
    command: str | None = None
    """The command that made the selection."""
    run: Path | None = None
    """Folder of the run, for the commands on the page; without it they are Python."""
    megabytes: float = 12.0
    """Largest size of all pictures and texts. The worst suspects have theirs first; the others
    are listed without."""
    max_borderline: int = 24
    """Largest number of cards for kept rows near the threshold."""


def write_report(selection: "Selection", path: Path, shown: Shown) -> Path:
    """Write `selection` as one self-contained HTML file, and return its path.

    The page lists all suspects, up to a quarter of a million. It loads nothing from the network,
    and equal arguments give equal bytes.
    """
    n = {name: getattr(shown, name) for name in ("row_id", "items", "truth")}
    lengths = {name: len(rows) for name, rows in n.items() if rows is not None}
    for name, length in lengths.items():
        if length != len(selection):
            raise InputError(
                f"{name} has {length:,} rows but the selection has {len(selection):,}."
            )
    if not 0 <= shown.megabytes < math.inf:
        raise InputError(f"megabytes must be a number from 0 up, got {shown.megabytes}.")
    check_extra()
    from kspr.report._page import render

    write_text(Path(path), render(selection, shown))
    return Path(path)


def report_run(
    folder: Path,
    out: Path | None = None,
    *,
    title: str | None = None,
    truth: str | None = None,
    selfcheck: bool = False,
    source: Path | None = None,
    megabytes: float = 12.0,
    q: float | None = None,
) -> tuple[Path, tuple[str, ...]]:
    """Write the report of the run in `folder`; return its path, and sentences for the user.

    `source` is where the data of the run is now, if that has moved, and `q` another error rate than
    the run's own. Images and texts that have changed since the run was made are not shown.

    With `selfcheck`, the error rate of the run's selector is tested on the source (a dozen fits).
    A report needs no source: rows that are gone from it have no picture or text. Sentences say so,
    and which checks are open.
    """
    from kspr.runs.evaluate import true_labels
    from kspr.runs.run import load_run
    from kspr.runs.selfcheck import check_run
    from kspr.runs.verify import checking_notes, verification_of

    run = load_run(folder, source).at(q)
    labels = None if truth is None else true_labels(run, truth)
    if labels is not None and len(labels.known) < len(run.rows):
        raise InputError(f"The report needs the truth of every row. {' '.join(labels.notes)}")
    shown = Shown(
        title=title or Path(run.origin.source).name,
        row_id=run.row_id,
        items=run.items(),
        truth=None if labels is None else labels.label,
        selfcheck=check_run(run) if selfcheck else None,
        verification=verification_of(run),
        command=run.origin.command_line(),
        run=folder,
        megabytes=megabytes,
    )
    # Beside the run, which is written as a whole: --overwrite removes an old report with it.
    path = write_report(run.selection, out or folder / "report.html", shown)
    return path, (*run.notes(), *checking_notes(run))


def check_extra() -> None:
    """Raise `MissingExtraError` if the packages that draw and fill in pages are not installed."""
    for package in ("jinja2", "matplotlib"):
        require(package, "The report", "'knockoffs-spr[report]'")
