"""Images or texts of many files to features, on a Dask cluster: workers embed and write parts."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kspr._files import read_json, write_json, write_parquet
from kspr._packages import versions
from kspr._progress import Progress
from kspr.errors import InputError, UnreadableItemError
from kspr.features.embedders import Embedder, Kind, embedder_identity, load_embedder
from kspr.features.embedding import Shard, content_fingerprint, embed_shards
from kspr.features.options import EmbedSettings
from kspr.runs.cluster_select import check_own_files, opened_cluster
from kspr.selectors.cluster_selection import part_name
from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions
from kspr.sources.places import absolute
from kspr.sources.readers.tables import roles_of
from kspr.sources.records import Records

__all__ = ["EmbeddedParts", "embed_on_cluster"]

_FORMAT = "kspr-embedded-parts-1"
_MANIFEST, _ABOUT = "manifest.json", "embedding.json"
_PARTS = "part-*.parquet"
_KEY = b"kspr"
"""Where a part says what it was made from, in the metadata of its schema."""


@dataclass(frozen=True)
class EmbeddedParts:
    """Features that workers have written, one parquet file for each file of the source."""

    folder: Path
    rows: int
    dimensions: int
    unreadable: dict[int, str]
    """Row numbers of the items that were left out, with the reason."""
    found: int
    """Parts that an earlier start had finished."""


@dataclass(frozen=True)
class _Job:
    """What a worker must know to embed a part."""

    kind: Kind
    identity: dict[str, Any]
    """What determines the features, besides the items."""
    settings: EmbedSettings
    options: ReadOptions
    rows: int
    """Items of all parts: many of them are worth an export for ONNX Runtime."""

    @property
    def precision(self) -> str:
        return "float16" if self.settings.half else "float32"


def embed_on_cluster(
    source: Path,
    out: Path,
    *,
    options: ReadOptions,
    settings: EmbedSettings,
    scheduler: str | None = None,
    overwrite: bool = False,
) -> EmbeddedParts:
    """Embed the items of the files of `source` on a cluster, and write features to `out`.

    Workers must reach both. `kspr select` reads what they write, ``out/*.parquet``, as it is. Parts
    that an earlier start has finished, of the same items and by the same embedder, are not made
    again.
    """
    table = check_own_files(source, options)
    roles = roles_of(table, options, str(source))
    if roles.item is None:
        raise InputError(f"{source} holds features already; there is nothing to embed.")
    kind: Kind = "image" if roles.image else "text"
    identity = embedder_identity(
        settings.embedder, kind, image_size=settings.image_size, flips=settings.flips
    )
    parts = [(number, part) for number, part in enumerate(table.parts) if part.n_rows]
    job = _Job(kind, identity, settings, options, sum(part.n_rows for _, part in parts))
    if not parts:
        raise InputError(f"{source} has no rows.")
    _claim(out, job, overwrite=overwrite)
    with opened_cluster(scheduler) as cluster:
        blocks = [(part.uri, part.start, out / part_name(number)) for number, part in parts]
        futures = cluster.each(embed_part, blocks, cluster.keep(job))
        with Progress("auto", "Embedding", len(futures)) as progress:
            made: list[dict[str, Any]] = cluster.results(futures, progress)
    # The source may have had more files once.
    for path in set(out.glob(_PARTS)) - {path for _, _, path in blocks}:
        path.unlink()
    return _conclude(source, out, job, made)


def embed_part(uri: str, first: int, path: Path, job: _Job) -> dict[str, Any]:
    """Embed the items of a file, on a worker, unless `path` holds their features; return about."""
    options = replace(job.options, missing="drop")
    records = open_source(Path(uri), options, unlabelled=True)
    items = records.items
    if items is None:
        raise InputError(f"{uri} has neither images nor texts.")
    made_from = {"format": _FORMAT, **_settled(job), "items": content_fingerprint(items.content())}
    there = _written(path)
    if there is not None and there["made_from"] == made_from:
        return {**there, "found": True}
    embedder = _embedder(job)
    size = job.settings.batch_size
    shards = list(embed_shards(items, embedder, job.precision, batch_size=size))
    unreadable = {first + row: why for shard in shards for row, why in shard.unreadable.items()}
    if unreadable and job.settings.strict:
        row, why = next(iter(unreadable.items()))
        raise UnreadableItemError(
            f"{len(unreadable)} of the {len(items)} items of {uri} cannot be read, the first in "
            f"row {row}: {why}"
        )
    about = {
        "made_from": made_from,
        "rows": len(items) - len(unreadable),
        "dimensions": max(shard.features.shape[1] for shard in shards),
        "unreadable": {str(row): why for row, why in unreadable.items()},
        "engine": embedder.engine(),
    }
    if about["rows"]:
        write_parquet(path, _table(records, first, shards, about))
    else:
        # Nothing could be read: what an earlier start has written is of other items.
        path.unlink(missing_ok=True)
    return {**about, "found": False}


def _table(
    records: Records, first: int, shards: Sequence[Shard], about: dict[str, Any]
) -> pa.Table:
    """Return the rows of a part as `kspr select` reads them."""
    row = np.concatenate([shard.rows for shard in shards])
    X = np.concatenate([shard.features for shard in shards if len(shard.rows)])
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


def _written(path: Path) -> dict[str, Any] | None:
    """Return what a part says about itself; None if it is not there, or damaged."""
    try:
        metadata = pq.read_schema(path).metadata or {}
        found = json.loads(metadata.get(_KEY, b"null"))
    except (OSError, ValueError, pa.ArrowException):
        return None
    return found if isinstance(found, dict) and "made_from" in found else None


def _embedder(job: _Job) -> Embedder:
    """Return the embedder of this worker: its weights are loaded once, for all parts."""
    settings = job.settings
    chosen = (settings.embedder, job.kind, settings.device, settings.half, settings.image_size)
    identity = json.dumps(job.identity, sort_keys=True, default=str)
    with _LOADING:
        return _loaded(identity, *chosen, settings.flips, settings.strict, job.rows)


_LOADING = Lock()


@lru_cache(maxsize=1)
def _loaded(
    _identity: str,
    name: str | None,
    kind: Kind,
    device: str,
    half: bool,
    image_size: int | None,
    flips: bool,
    strict: bool,
    rows: int,
) -> Embedder:
    return load_embedder(
        name,
        kind,
        device=device,
        half=half,
        image_size=image_size,
        flips=flips,
        strict=strict,
        rows=rows,
    )


def _settled(job: _Job) -> dict[str, Any]:
    """Return all that determines the features, besides the items."""
    found = {"kind": job.kind, "precision": job.precision, **job.identity}
    # As it will be read again.
    return dict(json.loads(json.dumps(found, default=str)))


def _claim(out: Path, job: _Job, *, overwrite: bool) -> None:
    """Make the folder for these features; refuse one that holds something else."""
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; the features need a folder.")
    wanted = {"format": _FORMAT, **_settled(job), "versions": versions("knockoffs-spr")}
    begun = read_json(out / _MANIFEST)
    visible = out.is_dir() and any(not path.name.startswith(".") for path in out.iterdir())
    if visible and not (isinstance(begun, dict) and begun.get("format") == _FORMAT):
        raise InputError(
            f"{out} holds files that are no embedding of a cluster; they are left alone. Choose "
            "another folder."
        )
    if visible and {**begun, "versions": None} != {**wanted, "versions": None}:
        if not overwrite:
            raise InputError(
                f"{out} holds another embedding, by {begun.get('embedder')}. Choose another folder "
                "or overwrite this one."
            )
        _clear(out)
    out.mkdir(parents=True, exist_ok=True)
    # Finished only when all parts are.
    (out / _ABOUT).unlink(missing_ok=True)
    write_json(out / _MANIFEST, wanted)


def _clear(out: Path) -> None:
    for path in (*out.glob(_PARTS), out / _ABOUT, out / _MANIFEST):
        path.unlink(missing_ok=True)


def _conclude(source: Path, out: Path, job: _Job, made: Sequence[dict[str, Any]]) -> EmbeddedParts:
    """Check that all parts go together, and write what they come to."""
    unreadable = {int(row): why for part in made for row, why in part["unreadable"].items()}
    if not sum(part["rows"] for part in made):
        first = next(iter(unreadable.values()))
        raise UnreadableItemError(f"None of the {job.rows} items can be read; the first: {first}")
    widths = {part["dimensions"] for part in made if part["rows"]}
    if len(widths) > 1:
        raise InputError(
            f"The parts in {out} have rows of {sorted(widths)} features; the workers have "
            "different embedders. Install the same versions on all of them, and embed again."
        )
    found = EmbeddedParts(
        folder=out,
        rows=sum(part["rows"] for part in made),
        dimensions=widths.pop(),
        unreadable=unreadable,
        found=sum(part["found"] for part in made),
    )
    about = {
        **_settled(job),
        "source": absolute(source),
        "rows": job.rows,
        "kept": found.rows,
        "dimensions": found.dimensions,
        "unreadable": {str(row): why for row, why in unreadable.items()},
        "engines": sorted({part["engine"] for part in made}),
        "settings": asdict(job.settings),
    }
    write_json(out / _ABOUT, about)
    return found
