"""What a folder of features was made from, and whether it belongs to the work at hand."""

import hashlib
import json
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kspr._files import staged
from kspr.data.embedders._packages import version
from kspr.errors import InputError

__all__ = [
    "Job",
    "claim",
    "clear",
    "content_fingerprint",
    "shard_folder",
    "write_json",
    "write_manifest",
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
