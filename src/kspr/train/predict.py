"""`predict_source`: predictions of a finished run for the rows of another source."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from kspr._files import staged, write_parquet
from kspr.core.labels import same_label
from kspr.errors import InputError
from kspr.features.options import EmbedSettings
from kspr.sources.options import ReadOptions
from kspr.train.outcome import read_about
from kspr.train.source import load_source
from kspr.train.trained import load_trained

__all__ = [
    "Predictions",
    "predict_source",
]


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predicted labels of the rows that could be read."""

    row_id: np.ndarray
    """Names of the rows in the source."""
    label: np.ndarray
    """Predicted label per row."""
    confidence: np.ndarray
    """Probability of the predicted label."""
    given: np.ndarray | None
    """Labels of the source; None if it has none."""
    unreadable: int
    """Number of items that could not be read."""

    @property
    def agreement(self) -> float | None:
        """Share of rows whose given label is predicted; None without given labels."""
        if self.given is None:
            return None
        return float(same_label(self.label, self.given).mean())

    def write(self, path: Path) -> Path:
        """Write one row per prediction to `path`, a CSV or parquet file by its ending."""
        columns = {"id": self.row_id, "predicted": self.label, "confidence": self.confidence}
        if self.given is not None:
            columns["label"] = self.given
        table = pa.table(columns)
        if path.suffix == ".parquet":
            write_parquet(path, table)
        elif path.suffix == ".csv":
            with staged(path) as staging:
                pyarrow.csv.write_csv(table, staging)
        else:
            raise InputError(f"{path} must end in .csv or .parquet.")
        return path


def predict_source(folder: Path, source: Path, options: ReadOptions) -> Predictions:
    """Predict the rows of `source` with the network of the run in `folder`."""
    trained = load_trained(folder)
    about = read_about(folder)
    settings = trained.settings
    if settings.input == "images":
        # The size of the training images, where the settings leave it to the first image.
        settings = replace(settings, image_size=trained.shape[-1])
    # The embedder of the training run: another one's features mean nothing to this network.
    loaded = load_source(source, settings, options, EmbedSettings(**about.get("embed", {})))
    probability = trained.predict_proba(loaded.features)
    best = probability.argmax(axis=1)
    return Predictions(
        row_id=loaded.row_id,
        label=trained.classes[best],
        confidence=probability.max(axis=1),
        given=None if loaded.records.label is None else loaded.label,
        unreadable=loaded.unreadable,
    )
