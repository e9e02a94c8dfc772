"""`kspr report`: a run as a page."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from kspr.cli._output import Json, print_json

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
    json: Json = False,
) -> None:
    """Write a run as one HTML file that can be read, printed and passed on.

    Example: kspr report run

    Parameters
    ----------
    run
        A directory that `kspr select` made. Images and texts are taken from its source; what a
        person found (`kspr verify`) is shown.
    out
        The file to write. [default: RUN/report.html]
    title
        Title of the page. [default: the name of the source]
    truth
        True labels, as for `kspr evaluate`; the promise is then held against them.
    selfcheck
        Put the error rate to the test on the run's source, as `kspr selfcheck` does; takes a
        dozen fits.
    suspects
        How many suspects to show.
    """
    from kspr.report.run_report import report_run

    path = report_run(
        run, out, title=title, truth=truth, selfcheck=selfcheck, max_suspects=suspects
    )
    if json:
        print_json({"report": path})
        return
    print(f"The report: {path}")
