"""`kspr export`: the cleaned data set, or rows for people to look at in another tool."""

from pathlib import Path
from typing import Literal

from kspr.cli import _common as common
from kspr.sources.formats import WrittenFormat


def export(
    run: common.Made,
    /,
    *,
    out: Path,
    to: WrittenFormat | None = None,
    # Spelled out: the types of runs.export would bring pyarrow with them, for the help alone.
    suspects: Literal["drop", "relabel", "relabel-keep", "keep", "reviewed"] | None = None,
    q: float | None = None,
    rows: Literal["suspects", "drawn", "all"] | None = None,
    threshold: float = 0.8,
    source: common.Moved = None,
    json: common.Json = False,
) -> None:
    """Write the cleaned data set, or rows for another tool; the source is not changed.

    Tables keep all of their columns as they are; only the labels of suspects change, and only if
    asked for. New columns give each row's number in the source, the label it was given, and
    whether it was kept. Images keep their names. OUT.changes.csv, or changes.csv in a folder,
    lists what was changed or left out, and why.

    `label-studio` and `fiftyone` write rows for people to look at, with the given label, the
    suggested one and the doubt: tasks with predictions, with a labelling config beside them
    (.xml); or classification labels with attributes. Images stay where they are.

    Example: kspr export run --suspects relabel-keep --out clean.parquet

    Example: kspr export run --to label-studio --out tasks.json

    Parameters
    ----------
    out
        The file, or the folder for `imagefolder` and `huggingface`; it must not exist. Its suffix
        names the format.
    to
        The format, where the suffix does not say it.
    suspects
        `drop` them, as without this option; `relabel` those whose suggested label is probably
        right, and drop the others; `relabel-keep` to keep these others as they are; `keep` all as
        they are, marked; or `reviewed`: change nothing but what people answered on the review page
        or in a file, as without this option after `kspr plan`. In every case, what a person has
        checked is written as it was found.
    q
        Another error rate than that of the run; nothing is fitted again.
    rows
        For `label-studio` and `fiftyone`: `suspects`, the worst first, as without this option for
        `label-studio`; `drawn`, those of `kspr verify --checks`, whose answers move the
        threshold; or `all`, as without it for `fiftyone`.
    threshold
        For `relabel` and `relabel-keep`: least probability of a suggested label. What becomes of
        all rows, and what can be expected of it, is printed before anything is written.
    """
    from kspr.runs.export import export_run

    say = None if json else print
    written = export_run(
        run, out, to, suspects, source, q=q, rows=rows, threshold=threshold, say=say
    )
    common.print_notes(written.notes)
    if json:
        common.print_json(written)
        return
    print(f"{written.rows:,} rows: {out}")
    if written.config is not None:
        print(f"The labelling config: {written.config}")
    if written.changes is not None:
        print(
            f"{written.relabelled:,} relabelled, {written.dropped:,} suspects left out; the list: "
            f"{written.changes}"
        )
