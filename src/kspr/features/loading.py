"""Opening a source and getting its features: read, and embedded where it has none."""

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kspr._files import write_parquet
from kspr.errors import InputError
from kspr.features.options import EmbedSettings
from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions
from kspr.sources.records import Records

if TYPE_CHECKING:
    from kspr.features.embedding import Embedded

__all__ = [
    "Loaded",
    "cache_folder",
    "check_labels",
    "embed_records",
    "embed_source",
    "load",
    "stored_features",
]

_FEATURES = "features.npy"


@dataclass(frozen=True, eq=False)
class Loaded:
    """The rows of a source that could be read, with their features."""

    records: Records
    """All rows of the source, those that could not be read among them."""
    features: Any
    """``(len(row), p)``, in the order of `row`; in training on images, what the network takes."""
    row: np.ndarray
    """Row numbers in the source, from 0, in ascending order."""
    unreadable: int = 0
    """Items that could not be decoded; they are not in `row`."""
    folder: Path | None = None
    """Where the features are kept, if they were computed."""

    @property
    def row_id(self) -> np.ndarray:
        """What identifies each of these rows, as text."""
        return np.asarray(self.records.row_id[self.row])

    @property
    def label(self) -> np.ndarray:
        """The label of each of these rows."""
        return np.asarray(_labels(self.records)[self.row])

    @property
    def truth(self) -> np.ndarray | None:
        """The true label of each of these rows, where the source has them."""
        return None if self.records.truth is None else np.asarray(self.records.truth[self.row])


def load(
    source: Path,
    options: ReadOptions,
    settings: EmbedSettings,
    *,
    labelled: bool = False,
    embed: bool = True,
) -> Loaded:
    """Open `source`, and embed its images or texts where it has no features.

    With `labelled`, a source without labels, or whose labels cannot be classes, is refused before
    anything is embedded. Without `embed`, images and texts stay as they are, without features.
    """
    records = open_source(source, options)
    if labelled:
        check_labels(_labels(records))
    # A source of class probabilities may have neither features nor items.
    if records.features is not None or records.items is None or not embed:
        return Loaded(records, records.features, np.arange(len(records)))
    folder = cache_folder(source, settings, options.split)
    # The folder is made for this source and these settings: what differs in it is out of date.
    embedded = embed_records(records, folder, settings, overwrite=True)
    row = np.asarray(embedded.kept)
    return Loaded(records, embedded.features, row, len(embedded.unreadable), folder)


def stored_features(folder: Path) -> np.ndarray | None:
    """Return the features that `load` has kept in `folder`, mapped; None if they are gone."""
    stored = folder / _FEATURES
    return np.load(stored, mmap_mode="r", allow_pickle=False) if stored.is_file() else None


def embed_source(
    source: Path, out: Path, *, options: ReadOptions, settings: EmbedSettings, overwrite: bool
) -> "Embedded":
    """Embed the items of `source` into `out`, with the labels of the rows beside them."""
    records = open_source(source, options)
    embedded = embed_records(records, out, settings, overwrite=overwrite)
    row = np.asarray(embedded.kept)
    columns = {"row": row, "id": records.row_id[row]}
    for name in ("label", "truth"):
        values = getattr(records, name)
        if values is not None:
            columns[name] = values[row]
    write_parquet(out / "rows.parquet", pa.table(columns))
    return embedded


def embed_records(
    records: Records, folder: Path, settings: EmbedSettings, **changes: Any
) -> "Embedded":
    """Embed the items of `records` into `folder`, or find their features there."""
    if records.items is None:
        raise InputError(f"{records.source} holds features already; there is nothing to embed.")
    from kspr.features.embedding import embed

    chosen = {k: v for k, v in asdict(settings).items() if k != "embedder"}
    return embed(records.items, settings.embedder, folder, **chosen, **changes)


def cache_folder(source: Path, settings: EmbedSettings, split: str | None = None) -> Path:
    """Return where the features of `source`, or of one of its splits, are kept between runs."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    # Neither of the two changes the features.
    relevant = {k: v for k, v in asdict(settings).items() if k not in ("batch_size", "strict")}
    # Resolved: a relative path and an absolute one share the features.
    key = json.dumps([str(source.resolve()), split, relevant], sort_keys=True)
    return root / "kspr" / "embeddings" / hashlib.sha256(key.encode()).hexdigest()[:16]


def check_labels(label: np.ndarray) -> None:
    """Raise if every row has a label of its own: such a column holds names, not classes."""
    distinct = len(np.unique(label))
    if distinct == len(label) and distinct > 1:
        raise InputError(
            f"All {distinct} labels are distinct; is this the right label column? A class needs "
            "at least two samples."
        )


def _labels(records: Records) -> np.ndarray:
    if records.label is None:
        raise InputError(
            f"{records.source} has no labels that could be found. Name their column with --label, "
            "or their file with --labels."
        )
    return records.label
