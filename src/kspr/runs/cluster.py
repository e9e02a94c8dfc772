"""Files that the workers of a Dask cluster read: rows for a selection, and items to embed."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kspr._files import read_json, write_json, write_parquet
from kspr._packages import require, versions
from kspr._progress import Progress, say
from kspr.errors import InputError, UnreadableItemError
from kspr.features.embedders import Embedder, Kind, embedder_identity, load_embedder
from kspr.features.embedders.google import with_embedder
from kspr.features.embedding import Shard, content_fingerprint, embed_shards
from kspr.features.loading import Loaded
from kspr.selectors.cluster import DaskFeatures, calls, opened_client, results
from kspr.sources.formats import absolute
from kspr.sources.opening import open_part, open_table
from kspr.sources.options import EmbedSettings, ReadOptions
from kspr.sources.parts import FilesTable, Part
from kspr.sources.readers.tables import roles_of
from kspr.sources.records import Records, number_texts, row_digests

_MANY_FILES = 16
"""Files from which on each is a part; fewer are cut into their row groups."""
_FORMAT = "kspr-embedded-parts-1"
_MANIFEST, _ABOUT = "manifest.json", "embedding.json"
_PARTS = "part-*.parquet"
_KEY = b"kspr"
"""Where a part says what it was made from, in the metadata of its schema."""


def _own_files(source: Path, options: ReadOptions) -> FilesTable:
    """Return a source as a table of files that each has all of its rows' columns."""
    for name in ("labels", "annotators", "probabilities"):
        if getattr(options, name) is not None:
            raise InputError(
                f"--{name} does not go with --scheduler: workers read each file by itself. Put "
                "the labels into the files."
            )
    table = open_table(source, options)
    if not isinstance(table, FilesTable):
        raise InputError(
            "--scheduler is for parquet and Arrow files, such as 'parts/*.parquet', and "
            f"{source} is none of these. Leave --scheduler out."
        )
    if not sum(part.n_rows for part in table.parts):
        raise InputError(f"{source} has no rows.")
    return table


def load_on_cluster(client: Any, source: Path, options: ReadOptions) -> Loaded:
    """Return the labelled rows of `source`; their features stay with the workers.

    They are read once and kept there; what does not fit into the workers' memory they write to
    their disks. Labels, ids and digests come to this process.
    """
    table = _own_files(source, options)
    # Before anything is read: a column that is missing in one file is missing in all.
    if not roles_of(table, options, str(source)).features:
        raise InputError(
            f"{source} has no features. Embed its images or texts first, with `kspr embed "
            "--scheduler`."
        )
    parts: Sequence[Part] = [part for part in table.parts if part.n_rows]
    if len(parts) < _MANY_FILES:
        parts = [group for part in parts for group in part.split() if group.n_rows]
    persist = require("dask", "A Dask cluster", "'knockoffs-spr[dask]'").persist
    # The graph is kept: rows of a worker that is lost are read again.
    with client.as_current():
        held = list(persist(*calls(_read_part, [(part, options) for part in parts])))
    columns = list(zip(*results(client, [read[1] for read in held]), strict=True))
    width, row, label, digest = (np.concatenate(column) for column in columns[:4])
    ids, groups = (None if c[0] is None else np.concatenate(c) for c in columns[4:])
    total = sum(part.n_rows for part in parts)
    unlabelled = f"{total - len(row):,} rows have no label and are left out."
    lengths = list(map(len, columns[1]))
    kept = [read[0] for read, n in zip(held, lengths, strict=True) if n]
    rows = DaskFeatures(client, kept, [n for n in lengths if n], int(width[0]))
    # Entries of rows without a label have no meaning, and are never looked at.
    place = np.zeros(total, dtype=np.int64)
    place[row] = np.arange(len(row))
    records = Records(
        source=source,
        reader=parts[0].kind,
        row_id=number_texts(np.arange(total)) if ids is None else ids[place],
        label=label[place],
        features=rows,
        groups=None if groups is None else groups[place],
        named=ids is not None,
        notes=(unlabelled,) if len(row) < total else (),
    )
    return Loaded(records, rows, row, read_digest=digest[place])


def _read_part(part: Part, options: ReadOptions) -> tuple[np.ndarray, tuple[Any, ...]]:
    """Return the features of the labelled rows of a part, and columns about these rows.

    These are the width of the features, row numbers, labels, digests, ids and groups.
    """
    records = open_part(part, options)
    chosen = records.labelled()
    X = records.features if len(chosen) == len(records) else records.features[chosen]
    ids = records.row_id if records.named else None
    columns = (records.label, row_digests(records), ids, records.groups)
    shown = (None if column is None else np.asarray(column)[chosen] for column in columns)
    return np.asarray(X), (np.array([X.shape[1]]), part.start + chosen, *shown)


@dataclass(frozen=True)
class EmbeddedParts:
    """Features that workers have written, one parquet file for each file of the source."""

    folder: Path
    rows: int
    dimensions: int
    unreadable: dict[int, str]
    """Row numbers of the items that were left out, with the reason."""
    reused: int
    """Parts that an earlier start had finished."""


@dataclass(frozen=True)
class _Job:
    """What a worker must know to embed a part."""

    settled: str
    """All that determines the features, besides the items, as JSON."""
    kind: Kind
    settings: EmbedSettings
    options: ReadOptions
    rows: int
    """Items of all parts: many of them are worth an export for ONNX Runtime."""


def embed_on_cluster(
    source: Path,
    out: Path,
    *,
    options: ReadOptions,
    settings: EmbedSettings,
    scheduler: str,
    overwrite: bool = False,
) -> EmbeddedParts:
    """Embed the items of the files of `source` on a cluster, and write features to `out`.

    Workers must reach both. `kspr select` reads what they write, ``out/*.parquet``, as it is. Parts
    that an earlier start has finished, of the same items and by the same embedder, are not made
    again.
    """
    table = _own_files(source, options)
    roles = roles_of(table, options, str(source))
    if roles.item is None:
        raise InputError(f"{source} holds features already; there is nothing to embed.")
    kind: Kind = "image" if roles.image else "text"
    # The first rows say for all whether texts are English.
    first = next(part for part in table.parts if part.n_rows)
    items = open_part(first, replace(options, missing="drop"), unlabelled=True).items
    if items is not None:
        settings, note = with_embedder(items, settings)
        if note is not None:
            say("auto", note)
    settled = {
        "format": _FORMAT,
        "kind": kind,
        "precision": "float16" if settings.half else "float32",
        **embedder_identity(settings, kind),
    }
    rows = sum(part.n_rows for part in table.parts)
    job = _Job(json.dumps(settled), kind, settings, options, rows)
    parts = [
        (part, out / f"part-{number:07d}.parquet")
        for number, part in enumerate(table.parts)
        if part.n_rows
    ]
    _claim(out, settled, overwrite=overwrite)
    abouts: list[dict[str, Any]] = []
    with opened_client(scheduler) as client, Progress("auto", "Embedding", len(parts)) as progress:
        for about in results(client, calls(_embed_part, parts, job)):
            abouts.append(about)
            progress.advance()
    # The source may have had more files once.
    for path in set(out.glob(_PARTS)) - {path for _, path in parts}:
        path.unlink()
    whole = _joined(abouts, out)
    write_json(out / _ABOUT, {**settled, "source": absolute(source), **whole, "rows": rows})
    unreadable = {int(row): why for row, why in whole["unreadable"].items()}
    reused = sum(part["reused"] for part in abouts)
    return EmbeddedParts(out, whole["kept"], whole["dimensions"], unreadable, reused)


def _embed_part(part: Part, path: Path, job: _Job) -> dict[str, Any]:
    """Embed the items of a file, on a worker, unless `path` holds their features; return about."""
    records = open_part(part, replace(job.options, missing="drop"), unlabelled=True)
    items = records.items
    if items is None:
        raise InputError(f"{part.uri} has neither images nor texts.")
    made_from = json.loads(job.settled) | {"items": content_fingerprint(items.content())}
    written = _about(path)
    if written.get("made_from") == made_from:
        return {**written, "reused": True}
    # The lock: threads of one worker share the embedder.
    with _LOADING:
        embedder = _embedder(job)
    size = job.settings.batch_size
    (shard,) = embed_shards(
        items, embedder, made_from["precision"], batch_size=size, shard_rows=max(len(items), 1)
    )
    unreadable = {str(part.start + row): why for row, why in shard.unreadable.items()}
    if unreadable and job.settings.strict:
        row, why = next(iter(unreadable.items()))
        raise UnreadableItemError(
            f"{len(unreadable)} of the {len(items)} items of {part.uri} cannot be read, the first "
            f"in row {row}: {why}"
        )
    about = {
        "made_from": made_from,
        "rows": len(shard.rows),
        "dimensions": shard.features.shape[1],
        "unreadable": unreadable,
        "engine": embedder.engine(),
    }
    if about["rows"]:
        write_parquet(path, _table(records, part.start, shard, about))
    else:
        # Nothing could be read: what an earlier start has written is of other items.
        path.unlink(missing_ok=True)
    return {**about, "reused": False}


_LOADING = Lock()


@lru_cache(maxsize=1)
def _embedder(job: _Job) -> Embedder:
    """Return the embedder of this worker: its weights are loaded once, for all parts."""
    return load_embedder(job.settings, job.kind, job.rows)


def _table(records: Records, first: int, shard: Shard, about: dict[str, Any]) -> pa.Table:
    """Return the rows of a part as `kspr select` reads them."""
    row, X = shard.rows, shard.features
    ids = records.row_id[row] if records.named else (first + row).astype(str)
    columns: dict[str, Any] = {
        "row": first + row,
        "id": pa.array(ids).cast(pa.large_string()),
        "features": pa.FixedSizeListArray.from_arrays(pa.array(X.reshape(-1)), X.shape[1]),
    }
    if records.label is not None:
        empty = np.isin(row, records.labelled(), invert=True)
        columns["label"] = pa.array(records.label[row], mask=empty)
    if records.truth is not None:
        columns["truth"] = pa.array(records.truth[row])
    return pa.table(columns).replace_schema_metadata({_KEY: json.dumps(about).encode()})


def _about(path: Path) -> dict[str, Any]:
    """Return what a part says about itself; nothing without a part, or if it is damaged."""
    try:
        about = json.loads((pq.read_schema(path).metadata or {})[_KEY])
    except (OSError, ValueError, KeyError, pa.ArrowException):
        return {}
    return about if isinstance(about, dict) else {}


def _claim(out: Path, settled: dict[str, Any], *, overwrite: bool) -> None:
    """Make the folder for these features; refuse one that holds something else."""
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; the features need a folder.")
    begun = read_json(out / _MANIFEST)
    if out.is_dir() and any(not path.name.startswith(".") for path in out.iterdir()):
        if not (isinstance(begun, dict) and begun.get("format") == _FORMAT):
            raise InputError(
                f"{out} holds files that are no embedding of a cluster; they are left alone. "
                "Choose another folder."
            )
        if {**begun, "versions": None} != {**settled, "versions": None}:
            if not overwrite:
                raise InputError(
                    f"{out} holds another embedding, by {begun.get('embedder')}. Choose another "
                    "folder or overwrite this one."
                )
            for path in out.glob(_PARTS):
                path.unlink()
    out.mkdir(parents=True, exist_ok=True)
    # Finished only when all parts are.
    (out / _ABOUT).unlink(missing_ok=True)
    write_json(out / _MANIFEST, {**settled, "versions": versions("knockoffs-spr")})


def _joined(abouts: Sequence[dict[str, Any]], out: Path) -> dict[str, Any]:
    """Return what all parts come to; raise `InputError` if they do not go together."""
    unreadable = {row: why for part in abouts for row, why in part["unreadable"].items()}
    widths = {part["dimensions"] for part in abouts if part["rows"]}
    if not widths:
        first = next(iter(unreadable.values()))
        raise UnreadableItemError(
            f"None of the {len(unreadable)} items can be read; the first: {first}"
        )
    if len(widths) > 1:
        raise InputError(
            f"The parts in {out} have rows of {sorted(widths)} features; the workers have "
            "different embedders. Install the same versions on all of them, and embed again."
        )
    return {
        "kept": sum(part["rows"] for part in abouts),
        "dimensions": widths.pop(),
        "unreadable": unreadable,
        "engines": sorted({part["engine"] for part in abouts}),
    }
