"""`kspr embed`: images or texts to features."""

from pathlib import Path
from typing import TYPE_CHECKING

from kspr._text import visible
from kspr.cli import _common as common

if TYPE_CHECKING:
    from kspr.runs.cluster import EmbeddedParts


def embed(
    source: Path,
    /,
    *,
    out: Path,
    scheduler: str | None = None,
    overwrite: common.Switch = False,
    options: common.Reading = common.AS_FOUND,
    settings: common.Embedding = common.AS_SHIPPED,
    json: common.Json = False,
) -> None:
    """Turn images or texts into features, once.

    An interrupted run goes on where it stopped. Items that cannot be read are listed and left
    out. The features are in OUT/features.npy, the rows and labels in OUT/rows.parquet.

    Example: kspr embed photos/ --out features

    Example: kspr select features/features.npy --labels features/rows.parquet --out run

    Example: kspr embed 'parts/*.parquet' --text review --scheduler local --out features

    Parameters
    ----------
    source
        A folder of images, a table with image or text columns, or a published data set.
    out
        Directory for the features.
    scheduler
        Let the workers of a Dask cluster embed the parquet or Arrow files of SOURCE, one by one,
        into OUT/*.parquet, which `kspr select` reads; all of them must reach SOURCE and --out. The
        address of its scheduler, such as tcp://10.0.0.1:8786, or `local` for processes that are
        started on this machine.
    overwrite
        Replace the features of another source in --out.
    """
    common.refuse_several(options, "embed")
    if scheduler is not None:
        from kspr.runs.cluster import embed_on_cluster

        parts = embed_on_cluster(
            source,
            out,
            options=options,
            settings=settings,
            scheduler=scheduler,
            overwrite=overwrite,
        )
        _print_parts(parts, scheduler, json)
        return
    from kspr.features.loading import embed_source

    embedded = embed_source(source, out, options=options, settings=settings, overwrite=overwrite)
    if json:
        common.print_json(
            {
                "out": out,
                "rows": len(embedded.kept),
                "dimensions": int(embedded.features.shape[1]),
                "unreadable": embedded.unreadable,
            }
        )
        return
    rows, dimensions = embedded.features.shape
    print(f"{rows:,} rows of {dimensions} features: {out / 'features.npy'}")
    _print_unreadable(embedded.unreadable)
    print(f"Next: kspr select {out / 'features.npy'} --labels {out / 'rows.parquet'} --out RUN")


def _print_parts(parts: "EmbeddedParts", scheduler: str, json: bool) -> None:
    """Print what a cluster has embedded."""
    files = parts.folder / "*.parquet"
    if json:
        numbers = {"rows": parts.rows, "dimensions": parts.dimensions}
        common.print_json({"out": parts.folder, **numbers, "unreadable": parts.unreadable})
        return
    print(f"{parts.rows:,} rows of {parts.dimensions} features: {visible(files)}")
    if parts.reused:
        print(f"{parts.reused:,} of the files had been embedded by an earlier start.")
    _print_unreadable(parts.unreadable)
    print(visible(f"Next: kspr select {str(files)!r} --scheduler {scheduler} --out RUN"))


def _print_unreadable(unreadable: dict[int, str]) -> None:
    if unreadable:
        print(f"{len(unreadable):,} items could not be read and were left out:")
        for row, reason in list(unreadable.items())[:5]:
            print(visible(f"  row {row}: {reason}"))
