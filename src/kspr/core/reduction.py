"""Principal components, batched over pieces or streamed over the rows of one matrix.

Both cases are one: a pass over blocks of shape ``(pieces, rows, p)``. A batch of pieces is
a single block; a matrix larger than memory is many blocks of one piece.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from scipy.linalg import eigh

from kspr.core.arrays import gram_of, in_order

Solver = Literal["auto", "exact", "randomised"]
Blocks = Callable[[], Iterable[np.ndarray]]
"""Called once per pass; yields the same rows each time."""
Each = Callable[[Callable[[np.ndarray], np.ndarray], Iterable[np.ndarray]], Iterable[np.ndarray]]
"""Like `map`; it may work at several items at once."""

OVERSAMPLING = 10
POWER_ITERATIONS = 4
"""Two leave a cosine of 0.84 to the exact directions of a CIFAR-10 piece; four leave 0.98."""
_WIDE_SPREAD = 1e4
"""Ratio of column variances beyond which single precision would lose the small columns."""
_NOTHING = {True: 1e-7, False: 1e-12}
"""Share of the largest deviation that is rounding error, in single precision or not."""
_RESOLVED = 1e-5
"""Share of the largest eigenvalue that a single-precision covariance matrix still resolves."""


@dataclass(frozen=True)
class PCA:
    """A fitted projection, one per piece."""

    mean: np.ndarray  # (pieces, 1, p)
    components: np.ndarray  # (pieces, p, d)
    deviation: np.ndarray  # (pieces, d), the scores' standard deviations

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Return the scores of the rows of `X`: ``(pieces, rows, d)``."""
        return np.asarray((X - self.mean) @ self.components)

    def scaled(self) -> "PCA":
        """Return the projection with scores whose mean square is 1 over all directions."""
        size = np.sqrt(np.mean(self.deviation**2, axis=-1, keepdims=True))
        size = np.where(size > 0, size, 1.0)
        return PCA(self.mean, self.components / size[:, None, :], self.deviation / size)


def fit_pca(
    blocks: Blocks,
    n_components: int,
    *,
    solver: Solver = "auto",
    rng: np.random.Generator,
    each: Each = map,
) -> PCA:
    """Return the leading `n_components` directions of the rows that `blocks` yields.

    `blocks` is called once per pass and must yield the same rows each time; `each` works at them.
    ``"auto"`` takes the cheaper of the covariance matrix (exact) and a randomised range finder.
    """
    n, total, square = _sums(blocks)
    mean = total / n
    variance = square / n - mean * mean
    first = next(iter(blocks()))
    p = first.shape[-1]
    d = min(n_components, p)
    precise = solver == "exact" or _is_wide(variance)
    sketch = solver == "auto" and not precise and _sketch_is_cheaper(n, p, d)
    rows = _centred(blocks, mean, n, np.float64 if precise else first.dtype)
    if sketch or solver == "randomised":
        values, vectors = _randomised(rows, d, rng, each)
    elif solver == "exact" and d <= first.shape[1] == n < p:
        values, vectors = _directions_of_few_rows(next(iter(rows())), d)
    else:
        values, vectors = _covariance_directions(rows, d, each)
        # The last directions may be rounding error of the single-precision matrix: form it again.
        if _unresolved(values, np.float64 if precise else first.dtype):
            rows = _centred(blocks, mean, n, np.float64)
            values, vectors = _covariance_directions(rows, d, each)
    deviation = np.sqrt(np.maximum(values, 0.0) / n)
    return PCA(*(part.astype(first.dtype) for part in (mean, vectors, deviation)))


def _centred(blocks: Blocks, mean: np.ndarray, n: int, dtype: np.dtype | type) -> Blocks:
    """Return the blocks without their mean, in the precision `dtype`."""
    mean = mean.astype(dtype)
    first = next(iter(blocks()))
    if first.shape[1] == n:
        # All rows at hand: centred once, not once per pass.
        only = [first.astype(dtype) - mean]
        return lambda: only
    return lambda: (block.astype(dtype) - mean for block in blocks())


def _sums(blocks: Blocks) -> tuple[int, np.ndarray, np.ndarray]:
    """Return the number of rows, and the sums of the columns and of their squares."""
    n, total, square = 0, np.zeros(()), np.zeros(())
    for block in blocks():
        n += block.shape[1]
        total = total + np.sum(block, axis=1, keepdims=True, dtype=np.float64)
        square = square + np.sum(block * block, axis=1, keepdims=True).astype(np.float64)
    return n, total, square


def _is_wide(variance: np.ndarray) -> bool:
    """Return whether the columns' scales differ so much that the small ones need doubles."""
    largest = np.max(variance, axis=-1, keepdims=True)
    # Constant columns have a variance of rounding error, which asks for no precision.
    small = np.where(variance > largest * 1e-14, variance, largest)
    return bool(np.any(largest[..., 0] > _WIDE_SPREAD * np.min(small, axis=-1)))


def _sketch_is_cheaper(n: int, p: int, d: int) -> bool:
    width = d + OVERSAMPLING
    # In flops. The matrix is symmetric, so it costs half of a product; eigh takes about 10 p^3. A
    # pass of the sketch takes two full products.
    covariance = n * p * p + 10 * p**3
    sketch = 4 * n * p * width * (POWER_ITERATIONS + 1)
    return sketch < covariance


def _unresolved(values: np.ndarray, dtype: np.dtype | type) -> bool:
    """Return whether the eigenvalues reach below what a matrix of `dtype` resolves."""
    lost = values[..., -1] < _RESOLVED * values[..., 0]
    return dtype != np.float64 and bool(np.any(lost))


def _covariance_directions(rows: Blocks, d: int, each: Each) -> tuple[np.ndarray, np.ndarray]:
    """Return the leading eigenvalues and eigenvectors of ``X'X``, largest first."""
    gram = in_order(each(gram_of, rows()))
    return _leading(gram.astype(np.float64), d)


def _leading(matrices: np.ndarray, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the leading eigenvalues and eigenvectors of symmetric matrices, largest first."""
    p = matrices.shape[-1]
    if 8 * d < p:
        # The few that are wanted take a third of the time of all.
        pairs = [eigh(matrix, subset_by_index=(p - d, p - 1)) for matrix in matrices]
        values, vectors = (np.stack(parts) for parts in zip(*pairs, strict=True))
    else:
        values, vectors = np.linalg.eigh(matrices)
    # Both sort ascending: the leading directions are the last columns.
    return np.flip(values[..., -d:], axis=-1), np.flip(vectors[..., -d:], axis=-1)


def _directions_of_few_rows(X: np.ndarray, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return what `_covariance_directions` does, from ``XX'``: smaller where columns are more."""
    values, left = _leading(X @ np.matrix_transpose(X), d)
    shown = values > _NOTHING[False] * values[..., :1]
    scale = np.where(shown, 1 / np.sqrt(np.where(shown, values, 1.0)), 0.0)
    return values, np.matrix_transpose(X) @ left * scale[..., None, :]


def _randomised(
    rows: Blocks, d: int, rng: np.random.Generator, each: Each
) -> tuple[np.ndarray, np.ndarray]:
    """Return what `_covariance_directions` does, as a random sketch finds it."""
    first = next(iter(rows()))
    pieces, _, p = first.shape
    width = min(d + OVERSAMPLING, p)
    # One start for all pieces: a piece's result does not depend on the batch that it is in.
    start = rng.standard_normal((p, width)).astype(first.dtype)
    V = np.broadcast_to(start, (pieces, p, width))
    for _ in range(POWER_ITERATIONS + 1):
        product = in_order(each(partial(_twice, V=V), rows()))
        # Without this, all columns would turn towards the first direction.
        V = np.linalg.qr(product).Q
    small = in_order(each(lambda block: gram_of(block @ V), rows()))
    values, rotation = np.linalg.eigh(small.astype(np.float64))
    vectors = V @ np.flip(rotation[..., -d:], axis=-1).astype(V.dtype)
    return np.flip(values[..., -d:], axis=-1), vectors


def _twice(block: np.ndarray, V: np.ndarray) -> np.ndarray:
    return np.asarray(np.matrix_transpose(block) @ (block @ V))
