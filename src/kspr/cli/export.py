"""`kspr export`: the cleaned data set."""

from pathlib import Path
from typing import Literal

from kspr.cli._output import Json, print_json, print_notes
from kspr.sources.formats import WrittenFormat

__all__ = ["export"]


def export(
    run: Path,
    /,
    *,
    out: Path,
    to: WrittenFormat | None = None,
    # Spelled out: `Suspects` of runs.export would bring pyarrow with it, for the help alone.
    suspects: Literal["drop", "relabel", "keep", "reviewed"] = "drop",
    threshold: float = 0.8,
    source: Path | None = None,
    json: Json = False,
) -> None:
    """Write the cleaned data set; the source is not changed.

    Tables keep all of their columns as they are; only the labels of suspects change, and only if
    asked for. New columns give each row's number in the source, the label it was given, and
    whether it was kept. Images keep their names. OUT.changes.csv, or changes.csv in a folder of
    images, lists what was changed or left out, and why.

    Example: kspr export run --suspects relabel --out clean.parquet

    Parameters
    ----------
    run
        A directory that `kspr select` made.
    out
        The file, or the folder for `imagefolder`; it must not exist. Its suffix names the format.
    to
        The format, where the suffix does not say it.
    suspects
        `drop` them; `relabel` those whose suggested label is probably right, and drop the others;
        `keep` them as they are, marked; or `reviewed`: change nothing but what people answered on
        the review page or in a CSV file. In every case, what a person has checked is written as it
        was found.
    threshold
        For `relabel`: least probability of a suggested label. What can be expected of it is printed
        before anything is written.
    source
        Where the data of the run is now, if it has moved.
    """
    from kspr.runs.export import export_run

    say = None if json else print
    made = export_run(run, out, to, suspects, source, threshold=threshold, say=say)
    print_notes(made.notes)
    if json:
        print_json(made)
        return
    print(f"{made.rows:,} rows: {out}")
    if made.changes is not None:
        print(
            f"{made.relabelled:,} relabelled, {made.dropped:,} suspects left out; the list: "
            f"{made.changes}"
        )
