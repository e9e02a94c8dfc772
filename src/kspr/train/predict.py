"""A finished run, used: load its network, and predict the rows of another source."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from torch import nn

from kspr._files import staged
from kspr.core.labels import same_label
from kspr.errors import InputError
from kspr.features.options import EmbedSettings
from kspr.models.build import build_network
from kspr.models.wrap import wrap_network
from kspr.selectors import Selection
from kspr.sources.options import ReadOptions
from kspr.train.outcome import classes_from_json, read_about, read_metrics, read_result
from kspr.train.pipelines import stored_medium
from kspr.train.run_folder import read_network
from kspr.train.settings import TrainSettings
from kspr.train.source import load_source
from kspr.train.trained import Trained

__all__ = [
    "Predictions",
    "load_trained",
    "predict_source",
]


@dataclass(frozen=True, eq=False)
class Predictions:
    """What the network says of each row that could be read."""

    row_id: np.ndarray
    label: np.ndarray
    confidence: np.ndarray
    given: np.ndarray | None
    """The labels of the source, where it has some."""
    unreadable: int

    @property
    def agreement(self) -> float | None:
        """Share of the source's labels that are predicted; None where it has none."""
        if self.given is None:
            return None
        return float(same_label(self.label, self.given).mean())

    def write(self, path: Path) -> Path:
        """Write one row per prediction to a CSV or parquet file, told by its ending."""
        columns = {"id": self.row_id, "predicted": self.label, "confidence": self.confidence}
        if self.given is not None:
            columns["label"] = self.given
        table = pa.table(columns)
        if path.suffix not in (".csv", ".parquet"):
            raise InputError(f"{path} must end in .csv or .parquet.")
        with staged(path) as staging:
            if path.suffix == ".csv":
                pyarrow.csv.write_csv(table, staging)
            else:
                pyarrow.parquet.write_table(table, staging)
        return path


def load_trained(folder: str | Path, network: nn.Module | None = None) -> Trained:
    """Return what the run in `folder` ended with.

    `network` is needed if the run trained a module of the user's own: its weights are stored, its
    code is not.
    """
    folder = Path(folder)
    about, result, stored = read_about(folder), read_result(folder), read_network(folder)
    settings = TrainSettings(**about["settings"])
    classes, shape = classes_from_json(about["classes"]), tuple(about["shape"])
    selection = Selection.load(folder / "selection") if (folder / "selection").is_dir() else None
    return Trained(
        network=_filled(folder, network, settings, len(classes), shape, stored["network"]).eval(),
        classes=classes,
        selection=selection,
        clean_mask=None if selection is None else selection.clean_mask,
        handed_over=result["handed_over"],
        epoch=result["epoch"],
        test_accuracy=result["test_accuracy"],
        held_out=result["held_out"],
        history=read_metrics(folder),
        settings=settings,
        shape=shape,
        medium=stored_medium(stored["medium"], shape, settings),
        folder=folder,
    )


def predict_source(folder: Path, source: Path, options: ReadOptions) -> Predictions:
    """Ask the network of the run in `folder` about the rows of `source`."""
    trained = load_trained(folder)
    about = read_about(folder)
    settings = trained.settings
    if settings.input == "images":
        settings = replace(settings, image_size=trained.shape[-1])
    loaded = load_source(source, settings, options, EmbedSettings(**about.get("embed", {})))
    probability = trained.predict_proba(loaded.X)
    best = probability.argmax(axis=1)
    return Predictions(
        row_id=loaded.records.row_id[loaded.row],
        label=trained.classes[best],
        confidence=probability.max(axis=1),
        given=None if loaded.records.label is None else loaded.label,
        unreadable=loaded.unreadable,
    )


def _filled(
    folder: Path,
    network: nn.Module | None,
    settings: TrainSettings,
    n_classes: int,
    shape: tuple[int, ...],
    weights: dict[str, Any],
) -> nn.Module:
    layer = settings.feature_layer
    made: nn.Module
    if network is None:
        made = build_network(settings.network, n_classes, in_shape=shape, feature_layer=layer)
    else:
        made = wrap_network(network, n_classes, in_shape=shape, feature_layer=layer)
    try:
        made.load_state_dict(weights)
    except RuntimeError as error:
        raise InputError(
            f"The weights in {folder} do not fit the network {settings.network!r}. If the run "
            "trained a network of your own, pass it: load_trained(folder, network)."
        ) from error
    return made
