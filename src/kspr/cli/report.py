"""`kspr report`: write a run as an HTML page."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from kspr.cli._output import Json, print_json, print_notes

__all__ = ["report"]


def report(
    run: Path,
    /,
    *,
    out: Path | None = None,
    title: str | None = None,
    truth: str | None = None,
    selfcheck: Annotated[bool, Parameter(negative="")] = False,
    suspects: int = 200,
    source: Path | None = None,
    json: Json = False,
) -> None:
    """Write a run as one HTML file to read, print and pass on.

    Example: kspr report run

    Parameters
    ----------
    run
        A directory made by `kspr select`. The page shows images and texts of its source, and the
        answers of `kspr verify`.
    out
        The file to write. [default: RUN/report.html]
    title
        Title of the page. [default: the name of the source]
    truth
        True labels, as for `kspr evaluate`: the page then shows the true error rate too.
    selfcheck
        Test the error rate on the run's source, as `kspr selfcheck` does; it takes a dozen fits.
    suspects
        Number of suspects to show.
    source
        Where the data of the run is now, if it has moved.
    """
    from kspr.report.run_report import report_run

    made = report_run(
        run,
        out,
        title=title,
        truth=truth,
        selfcheck=selfcheck,
        max_suspects=suspects,
        source=source,
    )
    print_notes(made.notes)
    if json:
        print_json({"report": made.path})
        return
    print(f"The report: {made.path}")
