"""Operations on arrays that several modules share: blocks of rows, sums in a fixed order, ranks."""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import numpy as np

_BLOCK_FLOATS = 1 << 19
"""Rows are walked in blocks of about this many numbers, so temporaries stay in cache."""
_TILE = 96
"""Rows of a tile: a multiple of the 8, 12, 16 or 24 that kernels work at together."""
_TRIED = 16
"""Tiles that show whether a kernel rounds by place."""
FEW_PIECES = 4
"""Up to here pieces are large, and taking their products one by one costs nothing."""


def to_numpy(values: Any) -> np.ndarray:
    """Return an array of any library on the host, without importing that library."""
    # np.asarray refuses a tensor that lies on a GPU.
    move = getattr(values, "cpu", None)
    return np.asarray(move() if callable(move) else values)


def rows_times(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return the product of rows ``(n, p)`` with a matrix ``(p, c)``, each row as if it were alone.

    A library multiplies rows in an order of additions that depends on their number and place. Here
    the result for a row does not, to the last bit: whoever cuts data into parts gets what the whole
    would give. Rows are multiplied in tiles of one size, the last of which ends with zeros.
    """
    n, p = A.shape
    dtype = tile_type(p, B.shape[1], A.dtype)
    tiles = A
    if n % _TILE or A.dtype != dtype:
        tiles = room_for_tiles(n, p, dtype)
        tiles[:n] = A
    product = np.matmul(tiles.reshape(-1, _TILE, p), B.astype(dtype, copy=False))
    return np.asarray(product.reshape(-1, B.shape[1])[:n], dtype=A.dtype)


def room_for_tiles(n_rows: int, width: int, dtype: np.dtype) -> np.ndarray:
    """Return an array for `n_rows` rows, and the rows of zeros that complete their last tile."""
    room = np.empty((-(-n_rows // _TILE) * _TILE, width), dtype=dtype)
    room[n_rows:] = 0.0
    return room


@cache
def tile_type(p: int, c: int, dtype: np.dtype) -> np.dtype:
    """Return the type in which tiles of `p` columns are multiplied with `c` columns.

    Some kernels for single precision round by the place of a row in the tile. Tiles of equal rows
    show that; then products are taken in double precision, and rounded.
    """
    equal = np.random.default_rng(0).standard_normal((_TRIED, 1, p)).astype(dtype)
    rows = np.repeat(equal, _TILE, axis=1)
    product = np.matmul(rows, np.random.default_rng(1).standard_normal((p, c)).astype(dtype))
    return dtype if np.all(product == product[:, :1]) else np.dtype(np.float64)


def one_hot(labels: np.ndarray, n_classes: int, dtype: np.dtype | type) -> np.ndarray:
    """Return the indicator rows of integer `labels`, with `n_classes` as the last axis."""
    return np.asarray(labels[..., None] == np.arange(n_classes, dtype=labels.dtype), dtype=dtype)


def row_blocks(n_rows: int, floats_per_row: int) -> Iterator[slice]:
    """Yield slices that cover ``range(n_rows)`` in cache-sized steps."""
    step = max(64, _BLOCK_FLOATS // max(1, floats_per_row))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def rank_within(values: np.ndarray, bins: np.ndarray, n_bins: int) -> tuple[np.ndarray, np.ndarray]:
    """Return each entry's rank among the `values` of its own bin, and the bins' sizes.

    Equal values rank in the order given. All arrays are flat.
    """
    # lexsort is stable, and takes its last key as the first one to sort by.
    order = np.lexsort((values, bins))
    sizes = np.bincount(bins, minlength=n_bins)
    rank = np.empty(len(values), dtype=np.int64)
    rank[order] = np.arange(len(values)) - (np.cumsum(sizes) - sizes)[bins[order]]
    return rank, sizes


def gram_of(A: np.ndarray) -> np.ndarray:
    """Return ``A'A`` per piece."""
    if A.shape[0] <= FEW_PIECES:
        # One by one, BLAS sees that both factors are the same and does half of the work.
        return np.stack([a.T @ a for a in A])
    return np.asarray(np.matrix_transpose(A) @ A)


def in_order(parts: Iterable[np.ndarray], so_far: np.ndarray | float = 0.0) -> np.ndarray:
    """Return the sum, added up in the order given: another order would round differently."""
    for part in parts:
        so_far = so_far + part
    return np.asarray(so_far)


def reachable(estimate: np.ndarray) -> np.ndarray:
    """Return the smallest level at which each position is kept, given the estimate at each.

    Positions are in the order in which they are kept: a later cut keeps all before it.
    """
    return np.asarray(np.minimum.accumulate(estimate[::-1])[::-1])
