"""`predict_source`: predictions of a finished run for the rows of another source."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from kspr._files import staged, write_parquet
from kspr.core.labels import places_in, same_label
from kspr.errors import InputError
from kspr.features.embedders import is_function
from kspr.features.loading import Loaded
from kspr.features.options import EmbedSettings
from kspr.selectors.validation import check_types
from kspr.sources.options import ReadOptions
from kspr.train.outcome import read_about
from kspr.train.source import load_source
from kspr.train.trained import load_trained

__all__ = ["Predictions", "predict_source"]


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
    """Labels of the source; None if it has none, or none that the network knows."""
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


def predict_source(
    folder: Path, source: Path, options: ReadOptions, embedder: str | None = None
) -> Predictions:
    """Predict the rows of `source`, labelled or not, with the network of the run in `folder`.

    The run names the embedder. If that is a ``module:function``, pass it as `embedder` too: code is
    never imported because a run names it.
    """
    embed = _embed_settings(folder, read_about(folder), embedder)
    trained = load_trained(folder)
    settings = trained.settings
    if settings.input == "images":
        # The size of the training images, where the settings leave it to the first image.
        settings = replace(settings, image_size=trained.shape[-1])
    loaded = load_source(source, settings, options, embed)
    probability = trained.predict_proba(loaded.features)
    best = probability.argmax(axis=1)
    return Predictions(
        row_id=loaded.row_id,
        label=trained.classes[best],
        confidence=probability.max(axis=1),
        given=_given(loaded, trained.classes),
        unreadable=loaded.unreadable,
    )


def _embed_settings(folder: Path, about: dict[str, Any], named: str | None) -> EmbedSettings:
    """Return how the run made its features; raise `InputError` if that needs the user's word."""
    try:
        stored = EmbedSettings(**about.get("embed", {}))
        check_types(stored)
    except (TypeError, InputError) as error:
        raise InputError(f"{folder} names its embedder in a way that cannot be read.") from error
    if named is not None and named != stored.embedder:
        raise InputError(
            f"{folder} was trained on features of {stored.embedder or 'the default embedder'}. "
            f"Those of {named} mean nothing to its network; leave --embedder out."
        )
    if named is None and stored.embedder is not None and is_function(stored.embedder):
        raise InputError(
            f"{folder} was trained on features of {stored.embedder}, a function outside of kspr. "
            "It is not imported because a run names it: if you know that code, pass "
            f"--embedder {stored.embedder}."
        )
    return stored


def _given(loaded: Loaded, classes: np.ndarray) -> np.ndarray | None:
    """Return the labels of the source, if the network knows any of them."""
    try:
        label = loaded.label
    except InputError:  # there are none, or some rows have none
        return None
    # Folders of photos may be named by date: such names are no labels to agree with.
    return label if (places_in(classes, label) >= 0).any() else None
