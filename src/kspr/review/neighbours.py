"""Rows to compare a row with: the nearest ones of a class whose labels are kept."""

from typing import Any

import numpy as np

__all__ = ["Neighbours"]

_REFERENCE = 20_000
"""Rows that are searched at most. More make the picture little better, and the page slower."""
_FEWEST = 20
"""Rows of each class among these, as far as it has so many."""
_VOTES = 50
"""Nearest rows that say which classes are likely."""
_BLOCK = 4096


class Neighbours:
    """A random part of the kept rows of each class, in memory, to be searched one row at a time."""

    def __init__(self, features: Any, code: np.ndarray, kept: np.ndarray) -> None:
        self._features = features
        self._rows = _sample(code, kept)
        self._code = code[self._rows]
        found = np.empty((len(self._rows), features.shape[1]), dtype=np.float32)
        for start in range(0, len(self._rows), _BLOCK):
            part = self._rows[start : start + _BLOCK]
            found[start : start + len(part)] = features[part]
        self._centre = found.mean(axis=0) if len(found) else 0.0
        self._unit = _unit(found - self._centre)

    def similarity(self, position: int) -> np.ndarray:
        """Return how similar each row of the reference is to a row: the cosine, -2 for itself."""
        row = np.asarray(self._features[position], dtype=np.float32) - self._centre
        similarity = np.asarray(self._unit @ _unit(row[None])[0])
        similarity[self._rows == position] = -2.0
        return similarity

    def nearest(self, similarity: np.ndarray, code: int, count: int) -> list[int]:
        """Return the rows of a class that are most similar, the nearest first."""
        inside = np.flatnonzero(self._code == code)
        inside = inside[similarity[inside] > -2.0]
        best = inside[np.argsort(-similarity[inside], kind="stable")[:count]]
        return [int(row) for row in self._rows[best]]

    def votes(self, similarity: np.ndarray, n_classes: int) -> np.ndarray:
        """Return how many of the nearest rows have each class."""
        count = min(_VOTES, len(similarity))
        near = np.argpartition(-similarity, count - 1)[:count] if count else np.empty(0, int)
        return np.bincount(self._code[near], minlength=n_classes)


def _sample(code: np.ndarray, kept: np.ndarray) -> np.ndarray:
    rng = np.random.default_rng(0)
    order = rng.permutation(np.flatnonzero(kept))
    # Class by class, so that a rare one is not missed.
    order = order[np.argsort(code[order], kind="stable")]
    classes, first, size = np.unique(code[order], return_index=True, return_counts=True)
    most = max(_FEWEST, _REFERENCE // max(len(classes), 1))
    parts = [order[a : a + min(n, most)] for a, n in zip(first, size, strict=True)]
    return np.sort(np.concatenate(parts)) if parts else order


def _unit(rows: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(length, 1e-12))
