"""The report of a run: its selection, with the images or texts of its source."""

from pathlib import Path

from kspr.report import write_report
from kspr.runs.evaluate import true_labels
from kspr.runs.run import load_run
from kspr.runs.selfcheck import check_run
from kspr.runs.verify import load_verification

__all__ = ["report_run"]


def report_run(
    folder: Path,
    out: Path | None,
    *,
    title: str | None = None,
    truth: str | None = None,
    selfcheck: bool = False,
    megabytes: float = 12.0,
) -> Path:
    """Write the report of the run in `folder`, and return its path.

    With `selfcheck`, the error rate of the run's selector is tested on the source (a dozen fits).
    A report needs no source: what is gone of it is left out.
    """
    run = load_run(folder)
    return write_report(
        run.selection,
        # Beside the run, which is written as a whole: --overwrite removes an old report with it.
        out or folder / "report.html",
        title=title or Path(run.origin.source).name,
        row_id=run.row_id,
        items=run.items(),
        features=run.features(),
        truth=None if truth is None else true_labels(run, truth),
        selfcheck=check_run(run) if selfcheck else None,
        verification=load_verification(run),
        command=run.origin.command_line(),
        run=folder,
        megabytes=megabytes,
    )
