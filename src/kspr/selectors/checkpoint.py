"""States of a long selection on disk: a process that was killed is continued by the next start.

What is saved is what a pass over all rows leaves: the coefficients of a fit, and the columns of the
judged rows. Nothing is saved unless somebody has asked for it with `resumable`, and the selection
has taken long already.
"""

import hashlib
import json
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from kspr._files import staged
from kspr._progress import say
from kspr.core.linear_fit import LinearFit
from kspr.selectors._passes import AllClasses, Predictions, Verdicts

__all__ = ["Checkpoint", "keep_fit", "keep_verdicts", "kept_fit", "kept_verdicts", "resumable"]

_PATIENCE = 30.0
"""Seconds that a selection takes before its states are worth a file."""
_KEY = "key"
_DAMAGE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile)


class Checkpoint:
    """States in a folder, by name; those of other data or parameters are not there."""

    def __init__(self, folder: Path, about: Any, patience: float = _PATIENCE) -> None:
        plain = json.dumps(about, sort_keys=True, default=str)
        self._key = hashlib.sha256(plain.encode()).hexdigest()
        self._folder = folder
        self._from = time.monotonic() + patience

    def save(self, name: str, arrays: dict[str, np.ndarray]) -> None:
        """Write a state, whole or not at all, if the selection has taken long."""
        if time.monotonic() >= self._from:
            with staged(self._folder / f"{name}.npz") as path:
                np.savez(path, **{_KEY: np.array(self._key)}, **arrays)  # type: ignore[arg-type]

    def load(self, name: str) -> dict[str, np.ndarray] | None:
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


def kept_fit(name: str) -> LinearFit | None:
    """Return the fit that an earlier start has made; None without one."""
    found = _load(name)
    return None if found is None else LinearFit(**found)


def keep_fit(name: str, fit: LinearFit) -> None:
    """Save a fit; one on tensors is made again."""
    arrays = vars(fit)
    if all(isinstance(array, np.ndarray) for array in arrays.values()):
        _save(name, arrays)


def kept_verdicts(predictions: Predictions, half: np.ndarray) -> Verdicts | None:
    """Return the judged rows of an earlier start; None without them."""
    found = _load("judged")
    if found is None:
        return None
    values = {key[2:]: array for key, array in found.items() if key.startswith("v:")}
    anchors: Any = found.get("anchors")
    if "a:data" in found:
        parts = tuple(found[f"a:{part}"] for part in ("data", "indices", "indptr"))
        anchors = csr_array(parts, shape=tuple(found["a:shape"].tolist()))
    seen = None if anchors is None else AllClasses(predictions, anchors)
    return Verdicts(values, np.zeros_like(half), half, seen)


def keep_verdicts(verdicts: Verdicts) -> None:
    """Save judged rows and the labels of the anchors."""
    arrays = {f"v:{name}": column for name, column in verdicts.values.items()}
    anchors: Any = None if verdicts.all_classes is None else verdicts.all_classes.anchors
    if issparse(anchors):
        arrays |= {f"a:{part}": getattr(anchors, part) for part in ("data", "indices", "indptr")}
        arrays["a:shape"] = np.array(anchors.shape)
    elif anchors is not None:
        arrays["anchors"] = anchors
    _save("judged", arrays)


def _load(name: str) -> dict[str, np.ndarray] | None:
    checkpoint = _CURRENT.get()
    return None if checkpoint is None else checkpoint.load(name)


def _save(name: str, arrays: dict[str, np.ndarray]) -> None:
    checkpoint = _CURRENT.get()
    if checkpoint is not None:
        checkpoint.save(name, arrays)
