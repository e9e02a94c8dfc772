"""`kspr export`: the cleaned data set."""

from pathlib import Path
from typing import Literal

from kspr.cli._output import Json, print_json

__all__ = ["export"]


def export(
    run: Path,
    /,
    *,
    out: Path,
    to: Literal["csv", "parquet", "jsonl", "imagefolder"] = "csv",
    suspects: Literal["drop", "relabel", "keep"] = "drop",
    json: Json = False,
) -> None:
    """Write the cleaned data set; the source is not touched.

    Tables keep their columns. Every row says its number in the source, the label it was given
    and whether it was kept.

    Example: kspr export run --to parquet --suspects relabel --out clean.parquet

    Parameters
    ----------
    run
        A directory that `kspr select` made.
    out
        The file, or the folder for `imagefolder`; it must not exist.
    to
        The format.
    suspects
        `drop` them; `relabel` them with the suggested label; or `keep` them as they are, marked.
    """
    from kspr.runs.export import export_run

    n = export_run(run, out, to, suspects)
    if json:
        print_json({"out": out, "rows": n})
        return
    print(f"{n:,} rows: {out}")
