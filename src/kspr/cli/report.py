"""`kspr report`: write a run as an HTML page."""

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from kspr._text import visible
from kspr.cli import _common as common
from kspr.errors import InputError

if TYPE_CHECKING:
    from kspr.report import TrainingRun
    from kspr.runs.run import Run


def report(
    run: common.Made,
    /,
    *,
    out: Path | None = None,
    title: str | None = None,
    truth: str | None = None,
    q: float | None = None,
    selfcheck: common.Switch = False,
    source: common.Moved = None,
    megabytes: float = 12.0,
    show: Annotated[bool, Parameter(name="--open", negative="")] = False,
    json: common.Json = False,
) -> None:
    """Write a run as one HTML file to read, print and pass on.

    Of a training run: its curves, what was kept along the epochs, and the rows that changed sides.
    RUN/frozen and RUN/selection in it are runs with a report of their own.

    The page lists all suspects, and offers them as a CSV file. It loads nothing from the network.
    To check rows, use `kspr review`, or `kspr verify`, which writes a CSV file to fill in.

    Example: kspr report run --open

    Parameters
    ----------
    out
        The file to write. [default: RUN/report.html]
    title
        Title of the page. [default: the name of the source]
    truth
        True labels, as for `kspr evaluate`: the page then shows the true error rate too.
    q
        Another error rate than that of the run; nothing is fitted again.
    selfcheck
        Test the error rate on the run's source, as `kspr selfcheck` does; it takes a dozen fits.
    megabytes
        Largest size of all pictures and texts on the page. The worst suspects have theirs first;
        the others are listed without.
    show
        Open the page in the browser.
    """
    from kspr.report import report_run
    from kspr.train.run_folder import is_training_run

    if is_training_run(run):
        given = {"--truth": truth, "--q": q, "--selfcheck": selfcheck or None}
        for flag in (flag for flag, value in given.items() if value is not None):
            raise InputError(
                f"{flag} is for the report of one selection, and {run} is a training run. Name the "
                f"selection: {run}/frozen or {run}/selection."
            )
        from kspr.report import write_training_report

        path = write_training_report(
            _read_training(run, source), out or run / "report.html", title, megabytes=megabytes
        )
    else:
        path, notes = report_run(
            run,
            out,
            title=title,
            truth=truth,
            q=q,
            selfcheck=selfcheck,
            source=source,
            megabytes=megabytes,
        )
        common.print_notes(notes)
    if json:
        common.print_json({"report": path})
    else:
        print(f"The report: {visible(path)}")
    # A machine without a browser returns False; the path is printed in any case.
    if show and not webbrowser.open(path.resolve().as_uri()):
        raise InputError(f"No browser could be opened. Open {path} yourself.")


def _read_training(folder: Path, source: Path | None = None) -> "TrainingRun":
    """Return what the folder of a training run says, finished or not.

    `source` is where the data of the run is now, if that has moved.
    """
    from kspr.report import TrainingRun
    from kspr.runs.run import load_run
    from kspr.train.run_folder import RESULT, read_about, read_metrics, read_result, read_sides

    def inner(name: str) -> "Run | None":
        return load_run(folder / name, source) if (folder / name).is_dir() else None

    about = read_about(folder)
    return TrainingRun(
        folder=folder,
        about=about,
        history=read_metrics(folder),
        result=read_result(folder) if (folder / RESULT).is_file() else None,
        before=inner("frozen"),
        after=inner("selection"),
        sides=read_sides(folder, int(about["rows"])),
    )
