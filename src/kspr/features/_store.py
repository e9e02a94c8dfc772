"""Folders of features: what they were made from, and the shards written before they are whole."""

import hashlib
import json
import shutil
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

import numpy as np

from kspr._files import read_json, staged
from kspr._packages import versions
from kspr.errors import InputError

__all__ = [
    "MANIFEST",
    "SHARDS",
    "EmbeddingManifest",
    "Shard",
    "check_folder",
    "claim",
    "clear",
    "content_fingerprint",
    "join",
    "open_features",
    "read_notes",
    "shard_is_whole",
    "write_shard",
]

_FORMAT = "kspr-embedding-1"
MANIFEST = "manifest.json"
SHARDS = "shards"
"""Folder in which shards are kept until they are joined."""
_MINE = ("embedding.json", "features.npy", SHARDS, MANIFEST)
"""Files of an embedding. The manifest, which identifies them, is removed last."""
_SHARD = ("rows", "features", "unreadable", "reasons", "engine")
# What NumPy and zipfile raise at damaged files.
_DAMAGE = (
    *(AttributeError, EOFError, LookupError, OSError, RuntimeError, SyntaxError, TypeError),
    *(ValueError, tokenize.TokenError, zipfile.BadZipFile, zlib.error),
)
_PIECE = 1 << 20
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
    if not _visible(folder):
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
    if _has_results(folder) and not overwrite:
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


def check_folder(folder: Path) -> None:
    """Raise if there can be no folder at `folder`."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; the features need a folder.")


def _visible(folder: Path) -> bool:
    """Return whether `folder` holds files other than the hidden ones of a killed process."""
    return folder.is_dir() and any(not p.name.startswith(".") for p in folder.iterdir())


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


def _has_results(folder: Path) -> bool:
    return (folder / "features.npy").exists() or any((folder / SHARDS).glob("[0-9]*.npz"))


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


def shard_is_whole(path: Path, expected: range) -> bool:
    """Return whether `path` holds a shard of the rows `expected`, and can be read."""
    if not path.is_file():
        return False
    try:
        with np.load(path, allow_pickle=False) as stored:
            # Features too: the archive compares its checksums when an entry is read.
            rows, features, unreadable, reasons, engine = (stored[name] for name in _SHARD)
        held = np.sort(np.concatenate([rows, unreadable]))
    except _DAMAGE:
        return False
    right = features.ndim == 2 and features.dtype.kind == "f" and engine.dtype.kind == "U"
    lengths = len(features) == len(rows) and reasons.shape == unreadable.shape
    return right and lengths and np.array_equal(held, np.array(expected))


def read_notes(paths: Sequence[Path]) -> tuple[dict[int, str], list[str]]:
    """Return why rows could not be read, and what computed the shards.

    There are several engines where a run was continued by another one.
    """
    unreadable: dict[int, str] = {}
    engines: set[str] = set()
    for path in paths:
        with np.load(path, allow_pickle=False) as stored:
            pairs = zip(stored["unreadable"].tolist(), stored["reasons"].tolist(), strict=True)
            unreadable.update(pairs)
            engines.add(str(stored["engine"]))
    return unreadable, sorted(engines - {""})


def join(paths: Sequence[Path], target: Path, dtype: np.dtype) -> None:
    """Write the features of all shards to one .npy file, a shard at a time."""
    with staged(target) as staging, staging.open("wb") as out:
        # Not through a memory map: on a full disk that ends the process with a signal, without
        # an error message.
        header = {"descr": dtype.str, "fortran_order": False, "shape": _shape(paths)}
        np.lib.format.write_array_header_1_0(out, header)
        for path in paths:
            # In small pieces: new memory for whole shards takes longer than the copying.
            with _stored_features(path) as (stored, (_, in_columns, kind)):
                if in_columns or kind != dtype:
                    raise InputError(
                        f"{path} holds other numbers than {dtype}; delete the folder and embed "
                        "again."
                    )
                shutil.copyfileobj(stored, out, _PIECE)


def open_features(path: Path) -> np.ndarray:
    """Return the features that `join` wrote, memory-mapped; raise `ValueError` if damaged."""
    # Opening a pipe would wait for somebody who writes to it.
    if not path.is_file():
        raise ValueError(f"{path} is missing.")
    try:
        features: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    except _DAMAGE as error:
        raise ValueError(f"{path} is damaged.") from error
    right = features.ndim == 2 and features.shape[1] > 0
    if not right or features.dtype not in (np.float16, np.float32):
        raise ValueError(f"{path} holds no features.")
    return features


def _shape(paths: Sequence[Path]) -> tuple[int, int]:
    rows, widths = 0, set()
    for path in paths:
        # Only the header is read.
        with _stored_features(path) as (_, (shape, _, _)):
            rows += shape[0]
        # A shard in which nothing could be read has no width.
        widths |= {shape[1]} if shape[0] else set()
    if len(widths) != 1:
        raise InputError(
            f"The shards in {paths[0].parent} have rows of {sorted(widths)} features; "
            "delete the folder and embed again."
        )
    return rows, widths.pop()


@contextmanager
def _stored_features(
    path: Path,
) -> Iterator[tuple[IO[bytes], tuple[tuple[int, ...], bool, np.dtype]]]:
    """Yield the file of a shard's features behind its header, and shape, order and type."""
    # Through np.load the whole array would be read. The archive compares its checksum at the end.
    with zipfile.ZipFile(path) as archive, archive.open("features.npy") as stored:
        np.lib.format.read_magic(stored)
        yield stored, np.lib.format.read_array_header_1_0(stored)
