"""The report of a training run: one HTML file with its curves and the rows that changed sides."""

from pathlib import Path

from kspr._files import write_text
from kspr.errors import InputError, MissingExtraError
from kspr.report.training_run import TrainingRun

__all__ = ["write_training_report"]


def write_training_report(
    run: TrainingRun, path: Path, title: str | None = None, *, megabytes: float = 12.0
) -> Path:
    """Write the page of a training run as one self-contained HTML file, and return its path.

    `title` is by default the name of the source, `megabytes` the largest size of all pictures and
    texts on the page. Equal arguments give equal bytes.
    """
    if not run.history:
        raise InputError(f"{run.folder} has finished no epoch yet; there is nothing to show.")
    try:
        import jinja2  # noqa: F401 - imported here to name the extra if it is missing
        import matplotlib  # noqa: F401 - the same
    except ImportError as error:
        raise MissingExtraError("The report", "'knockoffs-spr[report]'") from error
    from kspr.report._course import render

    write_text(path, render(run, title, megabytes))
    return path
