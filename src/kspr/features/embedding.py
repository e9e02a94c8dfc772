"""`embed`: items to a file of features, written in shards so that a killed run can be continued."""

import shutil
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice
from pathlib import Path

import numpy as np

from kspr._files import alone_in, write_json
from kspr._progress import Progress, ProgressMode, say
from kspr.errors import InputError, UnreadableItemError
from kspr.features._store import (
    ABOUT,
    FEATURES,
    MANIFEST,
    SHARDS,
    Embedded,
    EmbeddingManifest,
    Shard,
    claim,
    clear,
    content_fingerprint,
    join,
    open_features,
    read_embedded,
    read_notes,
    shard_is_whole,
    write_shard,
)
from kspr.features.embedders import Embedder, embedder_identity, load_embedder
from kspr.features.embedders.embedder import PendingBatch, as_is
from kspr.sources.options import EmbedSettings
from kspr.sources.records import Decoded, Items, content_digests, decoded, pixel_limit

__all__ = ["Embedded", "Shard", "content_fingerprint", "embed", "embed_shards"]


def embed(
    items: Items,
    settings: EmbedSettings,
    folder: Path,
    *,
    shard_rows: int = 4096,
    progress: ProgressMode = "auto",
    overwrite: bool = False,
) -> Embedded:
    """Compute the features of `items` into `folder`, or use those that it holds.

    Parameters
    ----------
    items
        Images or texts by row number.
    settings
        The embedder, and how it computes. With ``strict``, an item that cannot be read is an error
        before the model runs, and so is ``half`` where it fails on this processor; otherwise
        unreadable items are left out and listed, and float32 is used.
    folder
        Folder of the features. What it holds for the same items and settings is used: a finished
        embedding, or the shards that a killed run left.
    shard_rows
        Rows per shard: at most this many are computed again after an interruption.
    progress
        Whether to draw a progress bar; ``"auto"`` draws one for long work on a terminal.
    overwrite
        Allow another embedding in `folder` to be replaced.
    """
    folder = Path(folder)
    _check(items, batch_size=settings.batch_size, shard_rows=shard_rows)
    # The identity needs no model: a finished folder is recognised in seconds.
    identity = embedder_identity(settings, items.kind)
    fingerprint, digest = _fingerprint(items, progress)
    wanted = EmbeddingManifest(
        kind=items.kind,
        **identity,
        precision="float16" if settings.half else "float32",
        rows=len(items),
        fingerprint=fingerprint,
        shard_rows=shard_rows,
    )

    def waiting() -> None:
        say(progress, f"Another process writes to {folder}; waiting until it has finished.")

    # Whoever comes second takes the finished features.
    with alone_in(folder, waiting):
        manifest = claim(folder, wanted, overwrite=overwrite)
        finished = read_embedded(folder, fingerprint)
        # Images that were too large may be read now.
        if finished and not (finished.unreadable and finished.max_pixels != pixel_limit()):
            # The folder may be from a run that was not strict.
            _check_strict(finished.unreadable, manifest.rows, strict=settings.strict)
            # A process that was killed at its very end left them.
            shutil.rmtree(folder / SHARDS, ignore_errors=True)
            return replace(finished, digest=digest, from_cache=True)
        if settings.strict:
            _check_readable(items, settings.batch_size, progress)
        embedder = load_embedder(settings, items.kind, len(items))
        write_json(folder / MANIFEST, asdict(manifest))
        parts = enumerate(_parts(manifest.rows, manifest.shard_rows))
        shards = {folder / SHARDS / f"{number:06d}.npz": rows for number, rows in parts}
        _fill(shards, items, embedder, manifest, settings.batch_size, progress)
        return _conclude(folder, list(shards), manifest, embedder, digest)


def _check(items: Items, **sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise InputError(f"{name} must be at least 1, got {size}.")
    if len(items) == 0:
        raise InputError("There are no items to embed.")


def _fingerprint(items: Items, progress: ProgressMode) -> tuple[str, np.ndarray]:
    """Return the fingerprint of all items and the digest of each, from one reading."""
    digests: list[np.ndarray] = []

    def counted() -> Iterator[bytes]:
        for content in items.content():
            digests.append(content_digests([content]))
            yield content
            bar.advance()

    with Progress(progress, "Looking for changes", len(items)) as bar:
        fingerprint = content_fingerprint(counted())
    return fingerprint, np.concatenate(digests)


def _check_readable(items: Items, ahead: int, progress: ProgressMode) -> None:
    """Decode every item and raise if one cannot be read, before the model is loaded."""
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


def _parts(count: int, size: int) -> list[range]:
    """Return the rows of each shard."""
    rows = range(count)
    return [rows[start : start + size] for start in rows[::size]]


def _fill(
    shards: dict[Path, range],
    items: Items,
    embedder: Embedder,
    manifest: EmbeddingManifest,
    batch_size: int,
    progress: ProgressMode,
) -> None:
    """Compute the shards that are missing or damaged."""
    # A killed run leaves whole shards, or none under their final names.
    missing = {p: rows for p, rows in shards.items() if not shard_is_whole(p, rows)}
    batches = sum(-(-len(rows) // batch_size) for rows in missing.values())
    parts, dtype = list(missing.values()), np.dtype(manifest.precision)
    with (
        Progress(progress, "Embedding", batches) as bar,
        closing(_computed(items, parts, embedder, dtype, batch_size, bar)) as computed,
    ):
        for path, shard in zip(missing, computed, strict=True):
            write_shard(path, shard)


def embed_shards(
    items: Items, embedder: Embedder, precision: str, *, batch_size: int, shard_rows: int = 4096
) -> Iterator[Shard]:
    """Yield the features of `items` in shards; who asks for them keeps them."""
    _check(items, batch_size=batch_size, shard_rows=shard_rows)
    parts = _parts(len(items), shard_rows)
    with Progress(False, "Embedding", 0) as bar:
        yield from _computed(items, parts, embedder, np.dtype(precision), batch_size, bar)


def _computed(
    items: Items,
    parts: Sequence[range],
    embedder: Embedder,
    dtype: np.dtype,
    batch_size: int,
    bar: Progress,
) -> Generator[Shard, None, None]:
    """Yield the shard of the rows of each of `parts`; who asks may write it meanwhile."""
    stream = decoded(items, chain.from_iterable(parts), embedder.prepare, ahead=batch_size)
    batches = _batches(stream, parts, embedder.kind, batch_size)
    with closing(stream), closing(_under_way(batches, embedder)) as begun:
        for rows in parts:
            # Those of the next shard have begun when this one is whole.
            yield _shard(islice(begun, -(-len(rows) // batch_size)), embedder, dtype, bar)


def _batches(
    stream: Iterator[Decoded], parts: Iterable[range], kind: str, size: int
) -> Iterator[list[Decoded]]:
    """Cut the items into batches, of which none has items of two parts."""
    for rows in parts:
        part: Iterator[Decoded] = islice(stream, len(rows))
        if kind == "text":
            # Texts of a batch are padded to the longest of them: those of one length go together.
            part = iter(sorted(part, key=lambda item: len(item.value or "")))
        while batch := list(islice(part, size)):
            yield batch


@dataclass(frozen=True)
class _Batch:
    """A batch that has begun: the rows that could be read, and why others could not."""

    rows: list[int]
    unreadable: dict[int, str]
    features: PendingBatch | None
    """None where there is nothing to compute."""


def _under_way(
    batches: Iterator[list[Decoded]], embedder: Embedder
) -> Generator[_Batch, None, None]:
    """Yield batches in order, the next ones begun, as many as the embedder takes."""
    begun: deque[_Batch] = deque()
    try:
        for batch in batches:
            begun.append(_begin(batch, embedder))
            if len(begun) == embedder.ahead:
                yield begun[0]
                begun.popleft()
        yield from begun
    finally:
        # After an error or Ctrl-C the process would wait for them at its end.
        for left in begun:
            if left.features is not None:
                left.features.cancel()


def _begin(batch: list[Decoded], embedder: Embedder) -> _Batch:
    readable = [item for item in batch if item.reason is None]
    return _Batch(
        [item.row for item in readable],
        {item.row: item.reason for item in batch if item.reason is not None},
        embedder.begin([item.value for item in readable]) if readable else None,
    )


def _shard(batches: Iterator[_Batch], embedder: Embedder, dtype: np.dtype, bar: Progress) -> Shard:
    """Return the features of one shard's batches, once they are computed."""
    rows: list[int] = []
    blocks: list[np.ndarray] = []
    unreadable: dict[int, str] = {}
    for batch in batches:
        unreadable |= batch.unreadable
        rows += batch.rows
        if batch.features is not None:
            blocks.append(_stored(batch.features.wait(), dtype, embedder.name))
        bar.advance()
    # Concatenation needs an array, and a shard may have no readable item.
    nothing = np.empty((0, embedder.dimensions or 0), dtype)
    features = np.concatenate([nothing, *blocks])
    order = np.argsort(rows)
    in_order = np.array(rows, dtype=np.int64)[order]
    return Shard(in_order, features[order], unreadable, embedder.engine())


def _stored(features: np.ndarray, dtype: np.dtype, name: str) -> np.ndarray:
    # An overflow is reported below, with the value and the way out.
    with np.errstate(over="ignore"):
        stored = features.astype(dtype)
    if not np.isfinite(stored).all():
        raise InputError(
            f"{name} gave {np.abs(features).max():.3g}, which float16 cannot hold. "
            "Leave half precision out."
        )
    return stored


def _conclude(
    folder: Path,
    shards: list[Path],
    manifest: EmbeddingManifest,
    embedder: Embedder,
    digest: np.ndarray,
) -> Embedded:
    """Join the shards into one file, then remove them."""
    unreadable, engines = read_notes(shards)
    if len(unreadable) == manifest.rows:
        # Else the next run would see all shards whole, and fail without reading the items again.
        clear(folder)
        reason = next(iter(unreadable.values()))
        raise UnreadableItemError(
            f"None of the {manifest.rows} items can be read; the first: {reason}"
        )
    kept = manifest.rows - len(unreadable)
    join(shards, folder / FEATURES, kept, np.dtype(manifest.precision))
    about = {
        **asdict(manifest),
        "image_size": embedder.image_size,
        # Not from the embedder, which has not run if all shards were whole.
        "dimensions": open_features(folder / FEATURES).shape[1],
        "kept": kept,
        "unreadable": unreadable,
        "max_pixels": pixel_limit(),
        "engines": engines,
    }
    # Written last: with this file the embedding counts as finished.
    write_json(folder / ABOUT, about)
    # After it: until then nothing but the shards holds the features.
    shutil.rmtree(folder / SHARDS, ignore_errors=True)
    embedded = read_embedded(folder, manifest.fingerprint)
    if embedded is None:
        raise InputError(f"{folder} was changed while it was written. Embed again.")
    return replace(embedded, digest=digest)
