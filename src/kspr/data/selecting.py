"""From a source to a run: read, embed what needs it, select, write."""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kspr._files import staged
from kspr.data._answers import Rows, trusted_rows
from kspr.data.options import EmbedSettings, ReadOptions
from kspr.data.records import Records
from kspr.data.runs import Run, check_folder, origin_of, save_run
from kspr.data.sources import open_source
from kspr.errors import InputError
from kspr.selectors import SPR, KnockoffsSPR

if TYPE_CHECKING:
    from kspr.data.embedding import Embedded

__all__ = ["Labelled", "cache_folder", "embed_records", "embed_source", "labelled", "select_source"]


def select_source(
    source: Path,
    out: Path,
    selector: SPR | KnockoffsSPR,
    *,
    options: ReadOptions,
    settings: EmbedSettings,
    command: Sequence[str],
    overwrite: bool = False,
    trusted: Path | None = None,
) -> Run:
    """Select from the rows of `source`, and write the run to `out`.

    `trusted` is a CSV file with the true labels of rows that were drawn at random.
    """
    check_folder(out, overwrite=overwrite)
    found = labelled(source, options, settings)
    label, row_id = found.rows.label, found.rows.row_id
    how: dict[str, Any] = {}
    if trusted is not None:
        how["trusted"] = trusted_rows(trusted, found.rows)
    selection = selector.fit(found.features, label, **how).selection_
    origin = origin_of(found.records, options, command)
    if found.folder is not None:
        origin = replace(origin, embedding=str(found.folder), unreadable=found.unreadable)
    return save_run(out, selection, found.rows.row, row_id, origin, overwrite=overwrite)


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
    from kspr.data.embedding import embed

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
