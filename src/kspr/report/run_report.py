"""The report of a run: its selection, with the images or texts of its source."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kspr.errors import InputError
from kspr.report import write_report
from kspr.runs.answers import read_checks
from kspr.runs.draws import DEFAULT_CHECKS, ToCheck, rows_to_check, set_draw
from kspr.runs.evaluate import true_labels
from kspr.runs.run import Run, load_run
from kspr.runs.selfcheck import check_run
from kspr.runs.verify import verification_of

__all__ = ["Reported", "report_run"]


@dataclass(frozen=True)
class Reported:
    """The page that was written."""

    path: Path
    notes: tuple[str, ...]
    """Sentences for the user: rows of the run that the source does not hold any more."""
    to_check: bool
    """Whether the page has rows for a person to check."""


def report_run(
    folder: Path,
    out: Path | None,
    *,
    title: str | None = None,
    truth: str | None = None,
    selfcheck: bool = False,
    source: Path | None = None,
    megabytes: float = 12.0,
    checks: int | None = None,
) -> Reported:
    """Write the report of the run in `folder`.

    `source` is where the data of the run is now, if that has moved. Images and texts that have
    changed since the run was made are not shown.

    With `selfcheck`, the error rate of the run's selector is tested on the source (a dozen fits).
    A report needs no source: what is gone of it is left out.

    The page offers up to 100 rows to check, if rows of the run have been drawn and have no answer
    yet. With `checks`, it offers so many, and more are drawn if there are not enough.
    """
    if checks is not None and checks < 0:
        raise InputError(f"checks must be a number from 0 up, got {checks}.")
    run = load_run(folder, source)
    to_check = _to_check(run, checks)
    path = write_report(
        run.selection,
        # Beside the run, which is written as a whole: --overwrite removes an old report with it.
        out or folder / "report.html",
        title=title or Path(run.origin.source).name,
        row_id=run.row_id,
        items=run.items(),
        features=run.features(),
        truth=None if truth is None else _truth(run, truth),
        selfcheck=check_run(run) if selfcheck else None,
        verification=verification_of(run),
        to_check=to_check,
        command=run.origin.command_line(),
        run=folder,
        megabytes=megabytes,
    )
    return Reported(path, run.notes(), to_check is not None and bool(to_check.positions))


def _to_check(run: Run, n: int | None) -> ToCheck | None:
    draw = read_checks(run.folder, run.selection)
    n_drawn, n_open = (0, 0) if draw is None else (len(draw.positions), len(draw.unanswered))
    if n is not None and n > n_open:
        draw = set_draw(run.folder, n=n_drawn + n - n_open, fitted=run.fitted)
    if draw is None:
        return None
    return rows_to_check(run, draw, DEFAULT_CHECKS if n is None else n)


def _truth(run: Run, truth: str) -> np.ndarray:
    found = true_labels(run, truth)
    if len(found.known) < len(run.rows):
        raise InputError(f"The report needs the truth of every row. {' '.join(found.notes)}")
    return found.label
