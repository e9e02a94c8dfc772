"""Folders of features: what they were made from, and the shards written before they are whole."""

import hashlib
import json
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kspr._files import read_json, staged
from kspr._packages import versions
from kspr.errors import InputError

_FORMAT = "kspr-embedding-1"
ABOUT, FEATURES, MANIFEST = "embedding.json", "features.npy", "manifest.json"
SHARDS = "shards"
"""Folder in which shards are kept until they are joined."""
_MINE = (ABOUT, FEATURES, SHARDS, MANIFEST)
"""Files of an embedding. The manifest, which identifies them, is removed last."""
_RECORDED_ONLY = ("shard_rows", "versions")
"""Entries of the manifest that do not change the features."""
_PACKAGES = (
    *("knockoffs-spr", "numpy", "onnxruntime", "pillow", "sentence-transformers", "torch"),
    "transformers",
)


def _versions() -> dict[str, str]:
    return {name: number for name, number in versions(*_PACKAGES).items() if number is not None}


@dataclass(frozen=True)
class EmbeddingManifest:
    """Everything that determines the features of a folder, and the versions that computed them."""

    kind: str
    embedder: str
    image_size: int | None
    """Side in pixels: as asked for, or the embedder's default if known without loading it."""
    origin: str | None
    """Digest or version of local weights or code."""
    precision: str
    rows: int
    fingerprint: str
    shard_rows: int
    flips: bool = False
    """Whether features are averaged over images and their mirror images."""
    versions: dict[str, str] = field(default_factory=_versions)
    format: str = _FORMAT


@dataclass(frozen=True)
class Embedded:
    """Features on disk, and the rows they belong to."""

    folder: Path
    features: np.ndarray
    """``(kept rows, dimensions)``, memory-mapped."""
    kept: np.ndarray
    """Row numbers of the items that have features, in order."""
    unreadable: dict[int, str]
    """Row numbers of the items that were left out, with the reason."""
    fingerprint: str
    """SHA-256 of the items' stored bytes."""
    embedder: str
    image_size: int | None
    """Side in pixels of the model's input; None for text, and where the model decides."""
    max_pixels: int
    """How many pixels an image could have."""
    digest: np.ndarray | None = None
    """64-bit digest of the stored bytes of each item, also of those that were left out."""
    from_cache: bool = False
    """Whether all features were in the folder already."""
    note: str | None = None
    """Sentence for the user about the choice of the embedder."""


def content_fingerprint(contents: Iterable[bytes]) -> str:
    """Return the SHA-256 of all rows' stored bytes."""
    digest = hashlib.sha256()
    for content in contents:
        # The length first: other cuts of the same bytes into rows must not look the same.
        digest.update(len(content).to_bytes(8, "big"))
        digest.update(content)
    return digest.hexdigest()


def claim(folder: Path, wanted: EmbeddingManifest, *, overwrite: bool) -> EmbeddingManifest:
    """Return the manifest that `folder` holds if it matches `wanted`, else `wanted`.

    Raise `InputError` if the folder holds other files. Another embedding in it is removed if
    `overwrite` is set, and is an error otherwise. Nothing is written.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; the features need a folder.")
    # A killed process leaves hidden files.
    if not folder.exists() or all(path.name.startswith(".") for path in folder.iterdir()):
        return wanted
    begun = _read(folder)
    if begun is None:
        raise InputError(
            f"{folder} holds files that are no embedding; they are left alone. Choose another "
            "folder."
        )
    different = _differences(begun, wanted)
    if not different:
        return begun
    # A run that stopped before its first shard has nothing worth keeping.
    results = (folder / FEATURES).exists() or any((folder / SHARDS).glob("[0-9]*.npz"))
    if results and not overwrite:
        raise InputError(
            f"{folder} holds another embedding ({different}). Choose another folder or overwrite "
            "this one."
        )
    clear(folder)
    return wanted


def clear(folder: Path) -> None:
    """Remove the files of an embedding from `folder`, and the folder if it has no others."""
    for name in _MINE:
        path = folder / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


def _read(folder: Path) -> EmbeddingManifest | None:
    try:
        # TypeError stands for fields of another version, or JSON that is no object.
        manifest = EmbeddingManifest(**read_json(folder / MANIFEST))
        # It is written into the finished embedding: half a character cannot be.
        json.dumps(asdict(manifest), ensure_ascii=False).encode()
    except (OSError, TypeError, UnicodeEncodeError):
        return None
    right = type(manifest.shard_rows) is int and manifest.shard_rows > 0
    return manifest if right and manifest.format == _FORMAT else None


def _differences(begun: EmbeddingManifest, wanted: EmbeddingManifest) -> str:
    """Describe what differs between two manifests; empty if one continues the other."""
    there, here = asdict(begun), asdict(wanted)
    keys = [k for k in here if k not in _RECORDED_ONLY and there[k] != here[k]]
    words = {"fingerprint": "of other items", "origin": "with other weights or code"}
    said = [words.get(k) or f"{k} {there[k]} there, {here[k]} here" for k in keys]
    return ", ".join(said)


@dataclass(frozen=True)
class Shard:
    """Features of consecutive rows, and the reasons of those that could not be read."""

    rows: np.ndarray
    features: np.ndarray
    unreadable: dict[int, str]
    engine: str = ""
    """What computed the features, with its version; empty if unknown."""


def write_shard(path: Path, shard: Shard) -> None:
    """Write `shard` to `path`, whole or not at all."""
    with staged(path) as staging:
        np.savez(
            staging,
            rows=shard.rows,
            features=shard.features,
            unreadable=np.array(list(shard.unreadable), dtype=np.int64),
            # Fixed-width text: an array of objects would need pickle to be read.
            reasons=np.array(list(shard.unreadable.values()), dtype=np.str_),
            engine=np.array(shard.engine, dtype=np.str_),
        )


def _reasons(stored: Any) -> dict[int, str]:
    return dict(zip(stored["unreadable"].tolist(), stored["reasons"].tolist(), strict=True))


def shard_is_whole(path: Path, expected: range) -> bool:
    """Return whether `path` holds a shard of the rows `expected`, and can be read."""
    if not path.is_file():
        return False
    try:
        with np.load(path, allow_pickle=False) as stored:
            # Features too: the archive compares its checksums when an entry is read.
            rows, features, engine = (stored[name] for name in ("rows", "features", "engine"))
            held = sorted([*rows.tolist(), *_reasons(stored)])
    except Exception:  # whatever a damaged file makes of itself, it is computed again
        return False
    kinds = features.dtype.kind + engine.dtype.kind
    return held == list(expected) and features.shape[:-1] == rows.shape and kinds == "fU"


def read_notes(paths: Sequence[Path]) -> tuple[dict[int, str], list[str]]:
    """Return why rows could not be read, and what computed the shards.

    There are several engines where a run was continued by another one.
    """
    unreadable: dict[int, str] = {}
    engines: set[str] = set()
    for path in paths:
        with np.load(path, allow_pickle=False) as stored:
            unreadable |= _reasons(stored)
            engines.add(str(stored["engine"]))
    return unreadable, sorted(engines - {""})


def join(paths: Sequence[Path], target: Path, rows: int, dtype: np.dtype) -> None:
    """Write the features of all shards, so many `rows`, to one .npy file, a shard at a time."""
    width = 0
    # Not through a memory map: on a full disk that ends the process with a signal, without an
    # error message.
    with staged(target) as staging, staging.open("wb") as out:
        for path in paths:
            with np.load(path, allow_pickle=False) as stored:
                features = stored["features"]
            # A shard in which nothing could be read has no width.
            if not len(features):
                continue
            if not width:
                width = features.shape[1]
                header = {"descr": dtype.str, "fortran_order": False, "shape": (rows, width)}
                np.lib.format.write_array_header_1_0(out, header)
            if features.shape[1] != width:
                raise InputError(
                    f"The shards in {path.parent} have rows of "
                    f"{sorted([width, features.shape[1]])} features; delete the folder and embed "
                    "again."
                )
            features.astype(dtype, copy=False).tofile(out)


def open_features(path: Path) -> np.ndarray:
    """Return the features that `join` wrote, memory-mapped; raise `ValueError` if damaged."""
    # Opening a pipe would wait for somebody who writes to it.
    if not path.is_file():
        raise ValueError(f"{path} is missing.")
    try:
        features: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # whatever a damaged file makes of itself
        raise ValueError(f"{path} is damaged.") from error
    if features.ndim != 2 or not features.shape[1] or features.dtype not in ("f2", "f4"):
        raise ValueError(f"{path} holds no features.")
    return features


def read_embedded(folder: Path, fingerprint: str) -> Embedded | None:
    """Return the finished embedding in `folder`; None without one, or if it is of other items."""
    try:
        about = read_json(folder / ABOUT)
        unreadable = {int(row): str(reason) for row, reason in about["unreadable"].items()}
        kept = np.delete(np.arange(about["rows"]), list(unreadable))
        features = open_features(folder / FEATURES)
        if about["fingerprint"] != fingerprint or len(features) != len(kept):
            return None
        return Embedded(
            *(folder, features, kept, unreadable, fingerprint),
            *(about["embedder"], about["image_size"], about["max_pixels"]),
        )
    # Missing, damaged or of another version: it is computed again.
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
