"""The report of a run: its selection, with the images or texts of its source."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kspr.errors import InputError
from kspr.report import write_report
from kspr.runs.evaluate import true_labels
from kspr.runs.run import Run, load_run
from kspr.runs.selfcheck import check_run
from kspr.runs.verify import checking_notes, verification_of

__all__ = ["Reported", "report_run"]


@dataclass(frozen=True)
class Reported:
    """The page that was written."""

    path: Path
    notes: tuple[str, ...]
    """Sentences for the user: rows that the source does not hold any more, and open checks."""


def report_run(
    folder: Path,
    out: Path | None,
    *,
    title: str | None = None,
    truth: str | None = None,
    selfcheck: bool = False,
    source: Path | None = None,
    q: float | None = None,
    megabytes: float = 12.0,
) -> Reported:
    """Write the report of the run in `folder`.

    `source` is where the data of the run is now, if that has moved. `q` is another error rate than
    the run's own. Images and texts that have
    changed since the run was made are not shown.

    With `selfcheck`, the error rate of the run's selector is tested on the source (a dozen fits).
    A report needs no source: rows that are gone from it have no picture or text.
    """
    run = load_run(folder, source).at(q)
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
        command=run.origin.command_line(),
        run=folder,
        megabytes=megabytes,
    )
    return Reported(path, (*run.notes(), *checking_notes(run)))


def _truth(run: Run, truth: str) -> np.ndarray:
    labels = true_labels(run, truth)
    if len(labels.known) < len(run.rows):
        raise InputError(f"The report needs the truth of every row. {' '.join(labels.notes)}")
    return labels.label
