"""From items to a file of features: in shards, so that a killed run goes on where it was."""

import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from kspr._progress import Progress, ProgressMode
from kspr.errors import InputError, UnreadableItemError
from kspr.features._store import (
    Job,
    Shard,
    claim,
    clear,
    content_fingerprint,
    join,
    read_unreadable,
    shard_folder,
    shard_is_whole,
    write_json,
    write_manifest,
    write_shard,
)
from kspr.features.embedders import Embedder, embedder_identity, load_embedder
from kspr.features.embedders.embedder import as_is
from kspr.sources.readers.items import Decoded, decoded
from kspr.sources.records import Items

__all__ = ["Embedded", "embed"]


@dataclass(frozen=True)
class Embedded:
    """Features on disk, and which rows they belong to."""

    folder: Path
    features: np.ndarray
    """``(kept rows, dimensions)``, memory-mapped."""
    kept: np.ndarray
    """Row numbers of the items that have features, in order."""
    unreadable: dict[int, str]
    """Row numbers of the items that were left out, and why."""
    fingerprint: str
    """SHA-256 of the items' stored bytes."""
    embedder: str
    image_size: int | None
    """Pixels of the square that the model saw; None for text, and where the model decides."""
    from_cache: bool = False
    """Whether nothing had to be computed."""


def embed(
    items: Items,
    embedder_name: str | None,
    folder: Path,
    *,
    batch_size: int = 64,
    device: str = "auto",
    half: bool = False,
    image_size: int | None = None,
    strict: bool = False,
    shard_rows: int = 4096,
    progress: ProgressMode = "auto",
    overwrite: bool = False,
) -> Embedded:
    """Embed `items` into `folder`, or find them there.

    Whatever is finished in `folder` for the same items and settings is used: all of it, or the
    shards that a killed run left. `half` computes in half precision where that helps, and stores
    float16. Items that cannot be read are left out and listed; with `strict` they are an error,
    raised before the model runs. `overwrite` allows another embedding in `folder` to be replaced.
    """
    folder = Path(folder)
    _check(items, batch_size=batch_size, shard_rows=shard_rows)
    identity = embedder_identity(embedder_name, items.kind, image_size=image_size)
    wanted = Job(
        kind=items.kind,
        **identity,
        precision="float16" if half else "float32",
        rows=len(items),
        fingerprint=_fingerprint(items, progress),
        shard_rows=shard_rows,
    )
    job = claim(folder, wanted, overwrite=overwrite)
    finished = _finished(folder, job)
    if finished is not None:
        _check_strict(finished.unreadable, job.rows, strict=strict)
        return finished
    if strict:
        _check_readable(items, batch_size, progress)
    embedder = load_embedder(
        embedder_name, items.kind, device=device, half=half, image_size=image_size
    )
    write_manifest(folder, job)
    shards = _shards(folder, job)
    _fill(shards, items, embedder, job, batch_size=batch_size, progress=progress)
    return _conclude(folder, list(shards), job, embedder)


def _check(items: Items, **sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise InputError(f"{name} must be at least 1, got {size}.")
    if len(items) == 0:
        raise InputError("There are no items to embed.")


def _fingerprint(items: Items, progress: ProgressMode) -> str:
    with Progress(progress, "Looking for changes", len(items)) as bar:
        return content_fingerprint(_counted(items.content(), bar))


def _counted(contents: Iterator[bytes], bar: Progress) -> Iterator[bytes]:
    for content in contents:
        yield content
        bar.advance()


def _check_readable(items: Items, ahead: int, progress: ProgressMode) -> None:
    """Decode everything once: a strict run fails before the model costs anything."""
    stream = decoded(items, range(len(items)), as_is, ahead=ahead)
    unreadable = {}
    with Progress(progress, "Reading all items", len(items)) as bar:
        for item in stream:
            if item.reason is not None:
                unreadable[item.row] = item.reason
            bar.advance()
    _check_strict(unreadable, len(items), strict=True)


def _check_strict(unreadable: dict[int, str], rows: int, *, strict: bool) -> None:
    if strict and unreadable:
        row, reason = next(iter(unreadable.items()))
        raise UnreadableItemError(
            f"{len(unreadable)} of {rows} items cannot be read, the first in row {row}: {reason}"
        )


def _shards(folder: Path, job: Job) -> dict[Path, range]:
    """Return the file of each shard, and its rows."""
    starts = range(0, job.rows, job.shard_rows)
    return {
        shard_folder(folder) / f"{number:06d}.npz": range(
            start, min(start + job.shard_rows, job.rows)
        )
        for number, start in enumerate(starts)
    }


def _fill(
    shards: dict[Path, range],
    items: Items,
    embedder: Embedder,
    job: Job,
    *,
    batch_size: int,
    progress: ProgressMode,
) -> None:
    """Compute the shards that are not there."""
    missing = {p: rows for p, rows in shards.items() if not shard_is_whole(p, rows)}
    batches = sum(-(-len(rows) // batch_size) for rows in missing.values())
    in_order = (row for rows in missing.values() for row in rows)
    stream = decoded(items, in_order, embedder.prepare, ahead=batch_size)
    with closing(stream), Progress(progress, "Embedding", batches) as bar:
        for path, rows in missing.items():
            part = islice(stream, len(rows))
            write_shard(path, _shard(part, embedder, np.dtype(job.precision), batch_size, bar))


def _shard(
    part: Iterator[Decoded], embedder: Embedder, dtype: np.dtype, batch_size: int, bar: Progress
) -> Shard:
    """Return the features of one shard's items."""
    rows: list[int] = []
    blocks: list[np.ndarray] = []
    unreadable: dict[int, str] = {}
    while batch := list(islice(part, batch_size)):
        unreadable |= {item.row: item.reason for item in batch if item.reason is not None}
        readable = [item for item in batch if item.reason is None]
        if readable:
            features = embedder.embed([item.value for item in readable])
            blocks.append(_stored(features, dtype, embedder.name))
            rows += [item.row for item in readable]
        bar.advance()
    nothing = np.empty((0, embedder.dimensions or 0), dtype)
    return Shard(np.array(rows, dtype=np.int64), np.concatenate([nothing, *blocks]), unreadable)


def _stored(features: np.ndarray, dtype: np.dtype, name: str) -> np.ndarray:
    with np.errstate(over="ignore"):
        stored = features.astype(dtype)
    if not np.isfinite(stored).all():
        raise InputError(
            f"{name} gave {np.abs(features).max():.3g}, which float16 cannot hold. "
            "Leave half precision out."
        )
    return stored


def _conclude(folder: Path, shards: list[Path], job: Job, embedder: Embedder) -> Embedded:
    """Join the shards, and remove them when the result is in place."""
    unreadable = read_unreadable(shards)
    if len(unreadable) == job.rows:
        clear(folder)
        reason = next(iter(unreadable.values()))
        raise UnreadableItemError(f"None of the {job.rows} items can be read; the first: {reason}")
    join(shards, folder / "features.npy", np.dtype(job.precision))
    about = {
        **asdict(job),
        "image_size": embedder.image_size,
        "dimensions": embedder.dimensions,
        "kept": job.rows - len(unreadable),
        "unreadable": unreadable,
    }
    write_json(folder / "embedding.json", about)
    shutil.rmtree(shard_folder(folder), ignore_errors=True)
    return _open(folder, job, about)


def _finished(folder: Path, job: Job) -> Embedded | None:
    """Return what an earlier call finished, None if there is something left to do."""
    try:
        about = json.loads((folder / "embedding.json").read_text(encoding="utf-8"))
        return _open(folder, job, about, from_cache=True)
    except (OSError, ValueError, KeyError):
        return None


def _open(folder: Path, job: Job, about: dict[str, Any], *, from_cache: bool = False) -> Embedded:
    features = np.load(folder / "features.npy", mmap_mode="r", allow_pickle=False)
    unreadable = {int(row): str(reason) for row, reason in about["unreadable"].items()}
    kept = np.delete(np.arange(job.rows), list(unreadable))
    if about["fingerprint"] != job.fingerprint or features.shape[0] != len(kept):
        raise ValueError(f"{folder} is not whole.")
    return Embedded(
        folder=folder,
        features=features,
        kept=kept,
        unreadable=unreadable,
        fingerprint=job.fingerprint,
        embedder=job.embedder,
        image_size=about["image_size"],
        from_cache=from_cache,
    )
