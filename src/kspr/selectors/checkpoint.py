"""States of a long selection on disk: a process that was killed is continued by the next start.

What is saved is what a pass over all rows leaves: the coefficients of a fit, the columns of the
judged rows; on a cluster, sums. Nothing is saved unless somebody has asked for it with `resumable`,
and the selection has taken long already.
"""

import hashlib
import json
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from shutil import rmtree
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import csr_array, issparse

from kspr._files import staged
from kspr._progress import say
from kspr.core.linear_fit import LinearFit
from kspr.selectors._passes import AllClasses, Predictions, Verdicts

__all__ = [
    "PATIENCE",
    "Arrays",
    "Checkpoint",
    "once",
    "pack_counts",
    "pack_fit",
    "pack_verdicts",
    "resumable",
    "unpack_counts",
    "unpack_fit",
    "unpack_verdicts",
]

Arrays = dict[str, np.ndarray]
Result = TypeVar("Result")

PATIENCE = 30.0
"""Seconds that a selection takes before its states are worth a file."""
_KEY = "key"
_SPARSE = ("data", "indices", "indptr")
_DAMAGE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile)


class Checkpoint:
    """States in a folder, by name; those of other data or parameters are not there."""

    def __init__(self, folder: Path, about: Any, patience: float = PATIENCE) -> None:
        plain = json.dumps(about, sort_keys=True, default=str)
        self._key = hashlib.sha256(plain.encode()).hexdigest()
        self._folder = folder
        self._from = time.monotonic() + patience

    def save(self, name: str, arrays: Arrays) -> None:
        """Write a state, whole or not at all, if the selection has taken long."""
        if time.monotonic() >= self._from:
            with staged(self._folder / f"{name}.npz") as path:
                np.savez(path, **{_KEY: np.array(self._key)}, **arrays)  # type: ignore[arg-type]

    def load(self, name: str) -> Arrays | None:
        """Return a state; None if there is none of this data with these parameters."""
        path = self._folder / f"{name}.npz"
        if not path.is_file():
            return None
        try:
            with np.load(path, allow_pickle=False) as stored:
                if str(stored[_KEY]) != self._key:
                    return None
                found = {key: stored[key] for key in stored.files if key != _KEY}
        except _DAMAGE:
            return None
        say("auto", f"Goes on from {self._folder}: {name} is there from an earlier start.")
        return found

    def remove(self) -> None:
        """Remove the folder: the selection is done."""
        rmtree(self._folder, ignore_errors=True)


_CURRENT: ContextVar[Checkpoint | None] = ContextVar("checkpoint", default=None)


@contextmanager
def resumable(checkpoint: Checkpoint) -> Iterator[None]:
    """Let the selection in this block save its states, and go on from those that are there.

    `Checkpoint.remove` is left to the caller, for when its result is safe.
    """
    token = _CURRENT.set(checkpoint)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def once(
    name: str,
    work: Callable[[], Result],
    pack: Callable[[Result], Arrays | None],
    unpack: Callable[[Arrays], Result],
) -> Result:
    """Return what `work` returns, or what it returned to an earlier start of the same selection.

    `pack` and `unpack` turn it into arrays and back; a result that `pack` makes None of is not
    saved. Outside of `resumable`, nothing is.
    """
    checkpoint = _CURRENT.get()
    if checkpoint is None:
        return work()
    found = checkpoint.load(name)
    if found is not None:
        return unpack(found)
    result = work()
    arrays = pack(result)
    if arrays is not None:
        checkpoint.save(name, arrays)
    return result


def pack_fit(fit: LinearFit) -> Arrays | None:
    """Return a fit as arrays; None for one on tensors, which is made again."""
    on_host = all(isinstance(array, np.ndarray) for array in vars(fit).values())
    return dict(vars(fit)) if on_host else None


def unpack_fit(arrays: Arrays) -> LinearFit:
    """Return the fit that `pack_fit` has packed."""
    return LinearFit(**arrays)


def pack_verdicts(verdicts: Verdicts) -> Arrays:
    """Return judged rows and the labels of the anchors as arrays."""
    seen = verdicts.all_classes
    counts = {} if seen is None else pack_counts(seen.anchors)
    return {f"v:{name}": column for name, column in verdicts.values.items()} | counts


def unpack_verdicts(predictions: Predictions, half: np.ndarray, arrays: Arrays) -> Verdicts:
    """Return the judged rows that `pack_verdicts` has packed, of the given fit."""
    values = {name[2:]: array for name, array in arrays.items() if name.startswith("v:")}
    has_anchors = len(values) < len(arrays)
    seen = AllClasses(predictions, unpack_counts(arrays)) if has_anchors else None
    return Verdicts(values, np.zeros_like(half), half, seen)


def pack_counts(counts: Any) -> Arrays:
    """Return a square matrix of counts, dense or sparse, as arrays."""
    if issparse(counts):
        return {part: getattr(counts, part) for part in _SPARSE}
    return {"counts": counts}


def unpack_counts(arrays: Arrays) -> Any:
    """Return the matrix that `pack_counts` has packed."""
    if "counts" in arrays:
        return arrays["counts"]
    c = len(arrays["indptr"]) - 1
    return csr_array(tuple(arrays[part] for part in _SPARSE), shape=(c, c))
