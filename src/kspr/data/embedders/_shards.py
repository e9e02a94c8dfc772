"""Pieces of the features on disk, each whole or absent, and the one file they are joined into."""

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kspr._files import staged
from kspr.errors import InputError

__all__ = ["Shard", "join", "read_unreadable", "shard_is_whole", "write_shard"]


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
