"""What a folder of features was made from, and whether it belongs to the work at hand."""

import hashlib
import json
import shutil
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kspr._files import staged
from kspr._packages import version
from kspr.errors import InputError

__all__ = [
    "Job",
    "Shard",
    "claim",
    "clear",
    "content_fingerprint",
    "join",
    "read_unreadable",
    "shard_folder",
    "shard_is_whole",
    "write_json",
    "write_manifest",
    "write_shard",
]

_FORMAT = "kspr-embedding-1"
_MANIFEST = "manifest.json"
_MINE = ("embedding.json", "features.npy", "shards", _MANIFEST)
"""In the order of removal: the manifest, which says whose files these are, goes last."""
_RECORDED_ONLY = ("shard_rows", "versions")
_PACKAGES = ("knockoffs-spr", "numpy", "pillow", "sentence-transformers", "torch", "transformers")


def _versions() -> dict[str, str]:
    found = {package: version(package) for package in _PACKAGES}
    return {package: number for package, number in found.items() if number is not None}


@dataclass(frozen=True)
class Job:
    """Everything that decides the features, and with which versions they were begun."""

    kind: str
    embedder: str
    image_size: int | None
    """As asked for, or the embedder's default where that is known without loading it."""
    origin: str | None
    """Digest or version of local weights or code."""
    precision: str
    rows: int
    fingerprint: str
    shard_rows: int
    versions: dict[str, str] = field(default_factory=_versions)
    format: str = _FORMAT


def content_fingerprint(contents: Iterable[bytes]) -> str:
    """Return the SHA-256 of all rows' stored bytes; where one row ends counts too."""
    digest = hashlib.sha256()
    for content in contents:
        digest.update(len(content).to_bytes(8, "big"))
        digest.update(content)
    return digest.hexdigest()


def claim(folder: Path, job: Job, *, overwrite: bool) -> Job:
    """Return the job that `folder` is at: the one begun there if it is the same, else `job`.

    Raise `InputError` if the folder holds anything else, unless that is another embedding and
    `overwrite` is set: then it is removed. Nothing is written.
    """
    if not _visible(folder):
        return job
    begun = _read(folder)
    if begun is None:
        raise InputError(
            f"{folder} holds files that are no embedding; they are left alone. Choose another "
            "folder."
        )
    different = _differences(begun, job)
    if not different:
        return begun
    if _has_results(folder) and not overwrite:
        raise InputError(
            f"{folder} holds another embedding ({different}). Choose another folder or overwrite "
            "this one."
        )
    clear(folder)
    return job


def write_manifest(folder: Path, job: Job) -> None:
    """Make `folder` the place of `job`."""
    if _read(folder) != job:
        write_json(folder / _MANIFEST, asdict(job))


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write `content` beside `path` and move it there."""
    with staged(path) as staging:
        text = json.dumps(content, indent=2, ensure_ascii=False)
        staging.write_text(text + "\n", encoding="utf-8")


def shard_folder(folder: Path) -> Path:
    """Return where the shards are until they are joined."""
    return folder / "shards"


def clear(folder: Path) -> None:
    """Remove an embedding, and nothing else, from `folder`."""
    for name in _MINE:
        path = folder / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _visible(folder: Path) -> bool:
    """Tell whether there is anything but what a killed process left half-written."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; the features need a folder.")
    return folder.is_dir() and any(not p.name.startswith(".") for p in folder.iterdir())


def _read(folder: Path) -> Job | None:
    try:
        stored = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        job = Job(**stored)
    except (OSError, ValueError, TypeError):
        return None
    return job if job.format == _FORMAT else None


def _has_results(folder: Path) -> bool:
    return (folder / "features.npy").exists() or any(shard_folder(folder).glob("[0-9]*.npz"))


def _differences(begun: Job, job: Job) -> str:
    """Return in words what two jobs do not share; nothing if one continues the other."""
    there, here = asdict(begun), asdict(job)
    keys = [k for k in here if k not in _RECORDED_ONLY and there[k] != here[k]]
    words = {"fingerprint": "of other items", "origin": "with other weights or code"}
    said = [words.get(k) or f"{k} {there[k]} there, {here[k]} here" for k in keys]
    return ", ".join(said)


@dataclass(frozen=True)
class Shard:
    """Consecutive rows: those with features, and those that could not be read."""

    rows: np.ndarray
    features: np.ndarray
    unreadable: dict[int, str]


def write_shard(path: Path, shard: Shard) -> None:
    """Write `shard` beside `path` and move it there."""
    with staged(path) as staging:
        np.savez(
            staging,
            rows=shard.rows,
            features=shard.features,
            unreadable=np.array(list(shard.unreadable), dtype=np.int64),
            reasons=np.array(list(shard.unreadable.values()), dtype=np.str_),
        )


def shard_is_whole(path: Path, expected: range) -> bool:
    """Tell whether `path` holds a shard of the rows `expected`; features are not read."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            found = np.concatenate([stored["rows"], stored["unreadable"]])
            return "features" in stored and np.array_equal(np.sort(found), np.array(expected))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return False


def read_unreadable(paths: Sequence[Path]) -> dict[int, str]:
    """Return the rows that could not be read, and why."""
    found: dict[int, str] = {}
    for path in paths:
        with np.load(path, allow_pickle=False) as stored:
            pairs = zip(stored["unreadable"].tolist(), stored["reasons"].tolist(), strict=True)
            found.update(pairs)
    return found


def join(paths: Sequence[Path], target: Path, dtype: np.dtype) -> None:
    """Write the features of all shards to one .npy file, a shard at a time."""
    with staged(target) as staging, staging.open("wb") as out:
        # Not through a memory map: on a full disk that would be a signal instead of an error.
        header = {"descr": dtype.str, "fortran_order": False, "shape": _shape(paths)}
        np.lib.format.write_array_header_1_0(out, header)
        for path in paths:
            with np.load(path, allow_pickle=False) as stored:
                out.write(np.ascontiguousarray(stored["features"], dtype=dtype).data)


def _shape(paths: Sequence[Path]) -> tuple[int, int]:
    rows, widths = 0, set()
    for path in paths:
        shape = _stored_shape(path)
        rows += shape[0]
        # A shard in which nothing could be read has no width.
        widths |= {shape[1]} if shape[0] else set()
    if len(widths) != 1:
        raise InputError(
            f"The shards in {paths[0].parent} have rows of {sorted(widths)} features; "
            "delete the folder and embed again."
        )
    return rows, widths.pop()


def _stored_shape(path: Path) -> tuple[int, ...]:
    """Return the shape of a shard's features from its header alone."""
    with zipfile.ZipFile(path) as archive, archive.open("features.npy") as stored:
        np.lib.format.read_magic(stored)
        shape: tuple[int, ...] = np.lib.format.read_array_header_1_0(stored)[0]
        return shape
