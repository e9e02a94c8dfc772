"""From a source to a run: read, embed what needs it, select, write."""

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kspr._files import staged
from kspr.errors import InputError
from kspr.features.options import EmbedSettings
from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions
from kspr.sources.records import Records, Rows

if TYPE_CHECKING:
    from kspr.features.embedding import Embedded

__all__ = ["Labelled", "cache_folder", "embed_records", "embed_source", "labelled"]


@dataclass(frozen=True)
class Labelled:
    """Features and labels of a source, embedded where it needed that."""

    records: Records
    features: Any
    rows: Rows
    folder: Path | None
    """Where the features of images and texts are kept."""
    unreadable: int


def labelled(source: Path, options: ReadOptions, settings: EmbedSettings) -> Labelled:
    """Open `source`, and embed its items where there are no features."""
    records = open_source(source, options)
    if records.label is None:
        raise InputError(
            f"{source} has no labels that could be found. Name their column with --label, or "
            "their file with --labels."
        )
    check_labels(records.label)
    row, folder, unreadable = np.arange(len(records)), None, 0
    features: Any = records.features
    if features is None:
        folder = cache_folder(source, settings, options.split)
        embedded = embed_records(records, folder, settings, overwrite=True)
        features, row = embedded.features, np.asarray(embedded.kept)
        unreadable = len(embedded.unreadable)
    rows = Rows(row, records.row_id[row], records.label[row])
    return Labelled(records, features, rows, folder, unreadable)


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
    with staged(out / "rows.parquet") as staging:
        pq.write_table(pa.table(columns), staging)
    return embedded


def embed_records(
    records: Records, folder: Path, settings: EmbedSettings, **changes: Any
) -> "Embedded":
    """Embed the items of `records` into `folder`, or find them there."""
    if records.items is None:
        raise InputError(f"{records.source} holds features already; there is nothing to embed.")
    from kspr.features.embedding import embed

    chosen = {k: v for k, v in asdict(settings).items() if k != "embedder"}
    return embed(records.items, settings.embedder, folder, **chosen, **changes)


def cache_folder(source: Path, settings: EmbedSettings, split: str | None = None) -> Path:
    """Return where the features of `source`, or of one of its splits, are kept between runs."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    relevant = {k: v for k, v in asdict(settings).items() if k not in ("batch_size", "strict")}
    key = json.dumps([str(source.resolve()), split, relevant], sort_keys=True)
    return root / "kspr" / "embeddings" / hashlib.sha256(key.encode()).hexdigest()[:16]


def check_labels(label: np.ndarray) -> None:
    """Refuse labels that are no classes at all, before anything is computed."""
    distinct = len(np.unique(label))
    if distinct == len(label) and distinct > 1:
        raise InputError(
            f"All {distinct} labels are distinct; is this the right label column? A class needs "
            "at least two samples."
        )
