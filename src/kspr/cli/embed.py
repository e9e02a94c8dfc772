"""`kspr embed`: images, texts or sounds to features."""

from pathlib import Path
from typing import Any

from kspr._progress import say
from kspr._text import visible
from kspr.cli import _common as common


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
    """Turn images, texts or sounds into features, once.

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
    more: tuple[str, ...] = ()
    if scheduler is not None:
        from kspr.runs.cluster import embed_on_cluster

        how: dict[str, Any] = {"options": options, "settings": settings, "overwrite": overwrite}
        parts = embed_on_cluster(source, out, scheduler=scheduler, **how)
        rows, dimensions, unreadable = parts.rows, parts.dimensions, parts.unreadable
        out, files = parts.folder, visible(parts.folder / "*.parquet")
        then = visible(f"kspr select {str(out / '*.parquet')!r} --scheduler {scheduler} --out RUN")
        if parts.reused:
            more = (f"{parts.reused:,} of the files had been embedded by an earlier start.",)
    else:
        from kspr.features.loading import embed_source

        embedded = embed_source(
            source, out, options=options, settings=settings, overwrite=overwrite
        )
        if embedded.note is not None:
            say("auto", embedded.note)
        rows, dimensions = embedded.features.shape
        unreadable, files = embedded.unreadable, str(out / "features.npy")
        then = f"kspr select {files} --labels {out / 'rows.parquet'} --out RUN"
    if json:
        numbers = {"rows": rows, "dimensions": int(dimensions)}
        common.print_json({"out": out, **numbers, "unreadable": unreadable})
        return
    print(f"{rows:,} rows of {dimensions} features: {files}", *more, sep="\n")
    if unreadable:
        print(f"{len(unreadable):,} items could not be read and were left out:")
        for row, reason in list(unreadable.items())[:5]:
            print(visible(f"  row {row}: {reason}"))
    print(f"Next: {then}")
