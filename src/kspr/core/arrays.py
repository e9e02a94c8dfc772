"""Helpers that keep the core free of any one array library."""

import mmap
from collections.abc import Iterable, Iterator
from typing import Any

import array_api_compat as compat
import numpy as np

Array = Any
"""A NumPy array or a torch tensor; the core never mixes the two in one call."""

_BLOCK_FLOATS = 1 << 19
"""Rows are walked in blocks of about this many numbers, so temporaries stay in cache."""


FEW_PIECES = 4
"""Up to here pieces are large, and taking their products one by one costs nothing."""


def namespace(*arrays: Array) -> Any:
    """Return the array-API functions that belong to `arrays`."""
    return compat.array_namespace(*arrays)


def like(values: Any, reference: Array, dtype: Any = None) -> Array:
    """Return `values` as an array of the library and on the device of `reference`."""
    if isinstance(reference, np.ndarray):
        return np.asarray(to_numpy(values), dtype=dtype)
    if isinstance(values, np.ndarray):
        values = np.ascontiguousarray(values)  # torch takes no views with strides of zero
    xp = namespace(reference)
    return xp.asarray(values, dtype=dtype, device=compat.device(reference))


def to_numpy(values: Array) -> np.ndarray:
    """Return `values` on the host, without importing the library that holds them."""
    if compat.is_array_api_obj(values) and not isinstance(values, np.ndarray):
        # np.asarray refuses a tensor that lies on a GPU.
        values = compat.to_device(values, "cpu")
    return np.asarray(values)


def mapped_file(X: np.ndarray) -> Any:
    """Return the map behind an array that was opened for reading, if its pages may be dropped."""
    base: Any = X
    while base is not None and not isinstance(base, np.memmap):
        base = getattr(base, "base", None)
    # Dropping pages of any other map loses data: a copy-on-write map ("c") forgets its changes, and
    # an anonymous one becomes zeros. A read-only view does not tell which kind it looks at.
    if base is None or base.mode != "r" or not hasattr(mmap, "MADV_DONTNEED"):
        return None
    return base._mmap  # type: ignore[attr-defined]


def drop_pages(X: np.ndarray) -> None:
    """Forget what has been read of a mapped file, or a pass would make the whole file resident."""
    file = mapped_file(X)
    if file is not None:
        file.madvise(mmap.MADV_DONTNEED)


def one_hot(labels: Array, n_classes: int, dtype: Any) -> Array:
    """Return the indicator rows of integer `labels`, with `n_classes` as the last axis."""
    xp = namespace(labels)
    classes = xp.arange(n_classes, dtype=labels.dtype, device=compat.device(labels))
    return xp.astype(labels[..., None] == classes, dtype)


def row_blocks(n_rows: int, floats_per_row: int) -> Iterator[slice]:
    """Yield slices that cover ``range(n_rows)`` in cache-sized steps."""
    step = max(64, _BLOCK_FLOATS // max(1, floats_per_row))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def rank_within(values: Array, bins: Array, n_bins: int) -> tuple[Array, Array]:
    """Return each entry's rank among the `values` of its own bin, and the bins' sizes.

    Equal values rank in the order given. All arrays are flat.
    """
    xp = namespace(values)
    order = xp.argsort(values, stable=True)
    # Two stable sorts, the minor key first: the array API has no lexsort.
    order = xp.take(order, xp.argsort(xp.take(bins, order), stable=True))
    ids = xp.arange(n_bins, dtype=bins.dtype, device=compat.device(values))
    ordered = xp.take(bins, order)
    start = xp.searchsorted(ordered, ids)
    sizes = xp.searchsorted(ordered, ids, side="right") - start
    position = xp.arange(values.shape[0], device=compat.device(values))
    rank = position - xp.take(start, ordered)
    # The argsort of a permutation is its inverse: back to the order given.
    return xp.take(rank, xp.argsort(order)), sizes


def gram_of(A: Array) -> Array:
    """Return ``A'A`` per piece."""
    xp = namespace(A)
    if A.shape[0] <= FEW_PIECES:
        # One by one, BLAS sees that both factors are the same and does half of the work.
        return xp.stack([a.T @ a for a in A])
    return xp.matrix_transpose(A) @ A


def double(values: Array) -> Array:
    """Return `values` in double precision."""
    xp = namespace(values)
    return xp.astype(values, xp.float64)


def in_order(parts: Iterable[Array], so_far: Array = 0.0) -> Array:
    """Return the sum, added up in the order given: another order would round differently."""
    for part in parts:
        so_far = so_far + part
    return so_far


_TILE = 128
"""Rows of a product that are worked at together."""


def rows_times(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return ``A @ B``, where each row has the same bits whatever the other rows are.

    A product of matrices rounds a row by its place in them. So rows are multiplied in tiles of one
    size, the last of which is filled up with zeros.
    """
    A = np.ascontiguousarray(A)
    n, p = A.shape
    whole = n - n % _TILE
    product = np.empty((n, B.shape[1]), dtype=np.result_type(A, B))
    np.matmul(
        A[:whole].reshape(-1, _TILE, p), B, out=product[:whole].reshape(-1, _TILE, B.shape[1])
    )
    if whole < n:
        last = np.zeros((_TILE, p), dtype=A.dtype)
        last[: n - whole] = A[whole:]
        product[whole:] = (last @ B)[: n - whole]
    return product
