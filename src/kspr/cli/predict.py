"""`kspr predict`: predictions of a trained network."""

from pathlib import Path

from kspr._packages import require
from kspr._text import visible
from kspr.cli import _common as common
from kspr.errors import InputError


def predict(
    run: Path,
    source: Path,
    /,
    *,
    out: Path | None = None,
    embedder: str | None = None,
    options: common.Reading = common.AS_FOUND,
    json: common.Json = False,
) -> None:
    """Predict the labels of a source with the network of a training run.

    SOURCE needs no labels: a folder of photos, a file of texts, a table.

    Example: kspr predict run new-photos/ --out predictions.csv

    Parameters
    ----------
    run
        A directory that `kspr train` made.
    source
        A file or folder of the same kind as the training data.
    out
        CSV or parquet file with one row per prediction. Without it, the first 20 are printed.
    embedder
        The `module:function` of the training run, if it used one. The run's own word is not
        enough: it would import code that somebody else chose.
    """
    common.refuse_several(options, "predict")
    require("torch", "Predicting", "'knockoffs-spr[train]'")
    from kspr.train.source import predict_source

    if out is not None and out.exists():
        raise InputError(f"{out} already exists. Choose another --out.")
    predictions = predict_source(run, source, options, embedder)
    if out is not None:
        predictions.write(out)
    if json:
        common.print_json({"out": out, **vars(predictions)})
        return
    if predictions.agreement is not None:
        print(f"{predictions.agreement:.4f} of the source's labels are predicted")
    if predictions.unreadable:
        print(f"{predictions.unreadable:,} items could not be read and were left out")
    if out is not None:
        print(f"{len(predictions.label):,} predictions: {out}")
        return
    # Only the first of the three is cut to 20 rows; zip ends with it.
    for name, label, sure in zip(
        predictions.row_id[:20], predictions.label, predictions.confidence, strict=False
    ):
        print(visible(f"{name}  {label}  {sure:.3f}"))
    if len(predictions.label) > 20:
        print(f"... {len(predictions.label) - 20:,} more; --out FILE writes all of them")
