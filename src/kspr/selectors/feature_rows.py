"""Rows of features in arrays, memory maps, sparse matrices or tensors.

The selectors see only blocks and gathered rows, in single or double precision; half
precision and memory-mapped data are widened a block at a time, never as a whole.
"""

import math
from collections.abc import Iterator
from itertools import pairwise
from threading import Lock
from typing import Any, Protocol

import array_api_compat as compat
import numpy as np
import scipy.sparse as sp

from kspr._packages import require
from kspr.core.arrays import Array, drop_pages, mapped_file, to_numpy
from kspr.errors import InputError

__all__ = [
    "DenseFeatures",
    "Features",
    "MovedFeatures",
    "SparseFeatures",
    "as_features",
    "largest_size",
    "rows_not_finite",
]

_BLOCK_BYTES = 16 << 20


class Features(Protocol):
    """Rows that can be walked in order and gathered by number."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        ...

    def blocks(self) -> Iterator[Array]:
        """Yield all rows in order, as ``(rows, p)`` in working precision."""
        ...

    def read(self, rows: slice) -> Array:
        """Return neighbouring rows in working precision."""
        ...

    def take(self, index: np.ndarray) -> Array:
        """Return the rows at `index`: shape ``(*index.shape, columns)``."""
        ...

    def raw_blocks(self) -> Iterator[Any]:
        """Yield all rows in order, as they are stored."""
        ...


def as_features(X: Any) -> Features:
    """Wrap validated features."""
    return SparseFeatures(X) if sp.issparse(X) else DenseFeatures(X)


class DenseFeatures:
    """A NumPy array (or memory map) or a torch tensor."""

    def __init__(self, X: Array) -> None:
        self._X = X
        self._xp = compat.array_namespace(X)
        self._dtype = self._xp.float32 if X.dtype in self._narrow() else self._xp.float64
        self._host = isinstance(X, np.ndarray)

    def _narrow(self) -> tuple[Any, ...]:
        half = getattr(self._xp, "float16", None)
        brain = getattr(self._xp, "bfloat16", None)
        return tuple(t for t in (self._xp.float32, half, brain) if t is not None)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return (int(self._X.shape[0]), int(self._X.shape[1]))

    def raw_blocks(self) -> Iterator[Array]:
        """Yield the rows as they are stored, in blocks of a fixed size in bytes."""
        n, p = self.shape
        step = max(256, _BLOCK_BYTES // (4 * max(1, p)))
        for start in range(0, n, step):
            yield self._X[start : start + step]
            self._drop_pages()

    def blocks(self) -> Iterator[Array]:
        """Yield the rows in blocks of floating-point numbers."""
        for block in self.raw_blocks():
            yield self._widen(block)

    def read(self, rows: slice) -> Array:
        """Return neighbouring rows."""
        found = self._widen(self._X[rows])
        if self._host and np.may_share_memory(found, self._X) and mapped_file(self._X):
            # A copy, because the pages themselves are dropped.
            found = found.copy()
        self._drop_pages()
        return found

    def _drop_pages(self) -> None:
        if self._host:
            drop_pages(self._X)

    def take(self, index: np.ndarray) -> Array:
        """Return the rows at `index`."""
        if self._host and mapped_file(self._X) is not None:
            return self._gathered(index)
        if self._host:
            return self._widen(self._X[index])
        rows = self._xp.asarray(index, device=compat.device(self._X))
        return self._widen(self._X[rows])

    def _gathered(self, index: np.ndarray) -> np.ndarray:
        """Return rows of a file, read in its order: every page once, and few at a time."""
        n, p = self.shape
        flat = index.reshape(-1)
        order = np.argsort(flat, kind="stable")
        found = np.empty((len(flat), p), dtype=self._dtype)
        step = max(256, _BLOCK_BYTES // (4 * max(1, p)))
        borders = np.searchsorted(flat[order], np.arange(0, n + step, step))
        for first, last in pairwise(borders.tolist()):
            here = order[first:last]
            if len(here):
                found[here] = self._X[flat[here]]
                self._drop_pages()
        return found.reshape(*index.shape, p)

    def _widen(self, rows: Array) -> Array:
        return self._xp.astype(rows, self._dtype, copy=False)


class MovedFeatures:
    """Rows that are worked at on another device: what is read of them moves there, and no more.

    Nothing of the rows moves back; what is computed from them, such as fitted values, does.
    """

    def __init__(self, features: DenseFeatures, device: str) -> None:
        self._torch = require("torch", f"device={device!r}", "'knockoffs-spr[train]'")
        try:
            self._torch.empty(0, device=device)
        # torch says AssertionError where it was built without CUDA.
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(
                f"device must be one that torch can use here, such as 'cpu' or 'cuda', got "
                f"{device!r} ({reason})"
            ) from error
        self._features, self._device, self._lock = features, device, Lock()
        self.moved = 0
        """Rows that were moved so far, those that were moved again among them."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self._features.shape

    def raw_blocks(self) -> Iterator[Array]:
        """Yield the rows as they are stored, where they are."""
        return self._features.raw_blocks()

    def blocks(self) -> Iterator[Array]:
        """Yield the rows in blocks of floating-point numbers."""
        return map(self._move, self._features.blocks())

    def read(self, rows: slice) -> Array:
        """Return neighbouring rows."""
        return self._move(self._features.read(rows))

    def take(self, index: np.ndarray) -> Array:
        """Return the rows at `index`."""
        return self._move(self._features.take(index))

    def _move(self, rows: Array) -> Array:
        with self._lock:
            self.moved += math.prod(rows.shape[:-1])
        # A map that is open for reading only is no memory that torch may look at.
        plain = np.require(rows, requirements=("C", "W")) if isinstance(rows, np.ndarray) else rows
        return self._torch.as_tensor(plain, device=self._device)


class SparseFeatures:
    """A SciPy sparse matrix in row order. Rows become dense only a block at a time."""

    def __init__(self, X: Any) -> None:
        matrix = sp.csr_array(X)
        floating = matrix.dtype in (np.float32, np.float64)
        self.matrix = matrix if floating else matrix.astype(np.float64)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return (int(self.matrix.shape[0]), int(self.matrix.shape[1]))

    def raw_blocks(self) -> Iterator[np.ndarray]:
        """Yield the arrays that the matrix is stored as."""
        yield from (self.matrix.data, self.matrix.indices, self.matrix.indptr)

    def blocks(self) -> Iterator[np.ndarray]:
        """Yield the rows in dense blocks."""
        n, p = self.shape
        step = max(1, _BLOCK_BYTES // (8 * max(1, p)))
        for start in range(0, n, step):
            yield self.matrix[start : start + step].toarray()

    def read(self, rows: slice) -> np.ndarray:
        """Return neighbouring rows, dense."""
        return np.asarray(self.matrix[rows].toarray())

    def take(self, index: np.ndarray) -> np.ndarray:
        """Return the rows at `index`, dense."""
        rows = self.matrix[index.reshape(-1)].toarray()
        return np.asarray(rows.reshape(*index.shape, -1))


def largest_size(features: Features) -> tuple[float, float]:
    """Return the largest absolute value, and the largest that sums of squares can hold."""
    blocks = [features.matrix.data] if isinstance(features, SparseFeatures) else features.blocks()
    largest, limit = 0.0, np.inf
    for block in blocks:
        xp = compat.array_namespace(block)
        # Well below the root of what overflows: squares of many rows are added up.
        limit = float(xp.finfo(block.dtype).max) ** 0.4
        if 0 not in block.shape:
            # Two passes in cache instead of a copy with absolute values.
            largest = max(largest, float(xp.max(block)), -float(xp.min(block)))
    return largest, limit


def rows_not_finite(features: Features) -> np.ndarray:
    """Return the numbers of the rows that hold NaN or infinity."""
    if isinstance(features, SparseFeatures):
        bad = ~np.isfinite(features.matrix.data)
        owner = np.repeat(np.arange(features.shape[0]), np.diff(features.matrix.indptr))
        return np.unique(owner[bad])
    found, start = [], 0
    for block in features.raw_blocks():
        xp = compat.array_namespace(block)
        if xp.isdtype(block.dtype, "real floating"):
            # A sum is finite only if all of its terms are, and is the quicker question.
            total = xp.sum(block, dtype=xp.float64)
            if not bool(xp.isfinite(total)):
                good = to_numpy(xp.all(xp.isfinite(block), axis=1))
                found.append(start + np.flatnonzero(~good))
        start += block.shape[0]
    return np.concatenate(found) if found else np.empty(0, dtype=np.int64)
