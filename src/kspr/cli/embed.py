"""`kspr embed`: images or texts to features."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from kspr._text import visible
from kspr.cli._output import Json, print_json
from kspr.features.options import AS_SHIPPED, EmbedSettings
from kspr.sources.options import AS_FOUND, ReadOptions, refuse_annotators, refuse_groups

__all__ = ["embed"]


def embed(
    source: Path,
    /,
    *,
    out: Path,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
    options: Annotated[ReadOptions, Parameter(name="*")] = AS_FOUND,
    settings: Annotated[EmbedSettings, Parameter(name="*")] = AS_SHIPPED,
    json: Json = False,
) -> None:
    """Turn images or texts into features, once.

    An interrupted run goes on where it stopped. Items that cannot be read are listed and left
    out. The features are in OUT/features.npy, the rows and labels in OUT/rows.parquet.

    Example: kspr embed photos/ --out features

    Example: kspr select features/features.npy --labels features/rows.parquet --out run

    Parameters
    ----------
    source
        A folder of images, a table with image or text columns, or a published data set.
    out
        Directory for the features.
    overwrite
        Replace the features of another source in --out.
    """
    refuse_annotators(options, "embed")
    refuse_groups(options, "embed")
    from kspr.features.loading import embed_source

    embedded = embed_source(source, out, options=options, settings=settings, overwrite=overwrite)
    if json:
        print_json(
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
    if embedded.unreadable:
        print(f"{len(embedded.unreadable):,} items could not be read and were left out:")
        for row, reason in list(embedded.unreadable.items())[:5]:
            print(visible(f"  row {row}: {reason}"))
    print(f"Next: kspr select {out / 'features.npy'} --labels {out / 'rows.parquet'} --out RUN")
