"""Which half a row is in, and whether it is fitted, decided row by row.

Large data is not shuffled: a row's number and the seed give it a random key, and the content of a
row another one. So a row's half does not depend on how many rows there are, and a random part of
them needs no list of all.
"""

import numpy as np

from kspr.core.arrays import row_blocks

__all__ = ["assign_halves", "content_keys", "row_keys"]

_SMALL = 64
"""Classes of at most this many rows are divided equally; larger ones row by row, which leaves their
halves equal up to chance."""
_COUNTED = 1024
"""Different rows whose copies are counted, to tell copies from a table with few values."""
_MOST = 0.5
"""Share of rows with a copy from which on equal rows are not kept together."""
_ALL = float((1 << 64) - (1 << 11))
"""The largest key, rounded down to a number that floats have."""
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def row_keys(start: int, n_rows: int, seed: int) -> np.ndarray:
    """Return a random number of 64 bits for each of `n_rows` rows from `start` on, all different.

    >>> whole = row_keys(0, 10, seed=7)
    >>> bool((row_keys(6, 4, seed=7) == whole[6:]).all())
    True
    """
    rows = np.arange(start + 1, start + n_rows + 1, dtype=np.uint64)
    return _mixed(rows * _GOLDEN + _mixed(np.array([seed], dtype=np.uint64)))


def _mixed(values: np.ndarray) -> np.ndarray:
    """Return the output function of the generator splitmix64: one to one, and without pattern."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(values ^ (values >> np.uint64(31)))


def content_keys(X: np.ndarray, seed: int) -> np.ndarray:
    """Return a random number of 64 bits for the content of each row: the same for equal rows."""
    keys = np.empty(len(X), dtype=np.uint64)
    odd = row_keys(0, X.shape[1], seed) | np.uint64(1)
    for rows in row_blocks(*X.shape):
        # Adding 0 turns -0 into 0: the two are equal, and so must be their bits.
        block = np.ascontiguousarray(X[rows] + X.dtype.type(0))
        words = block.view(np.uint32 if block.dtype.itemsize == 4 else np.uint64)
        keys[rows] = words.astype(np.uint64, copy=False) @ odd
    return _mixed(keys ^ _mixed(np.array([seed], dtype=np.uint64)))


def assign_halves(
    codes: np.ndarray, keys: np.ndarray, contents: np.ndarray, n_fitted: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the half of each row, and the numbers of the rows that are fitted, about `n_fitted`.

    `keys` are the `row_keys`, and `contents` the `content_keys` of the rows; where copies may be in
    two halves, pass the keys twice. Rows of equal content are in one half, with two exceptions:
    small classes are divided equally, and where most rows have a copy, equal rows are no copies but
    what a table with few values looks like.
    """
    n, sizes = len(codes), np.bincount(codes)
    shared = contents if _share_of_copies(contents) <= _MOST else keys
    half = (shared & np.uint64(1)).astype(np.int8)
    few = np.flatnonzero((sizes <= _SMALL)[codes])
    few = few[np.lexsort((keys[few], codes[few]))]
    rank = np.arange(len(few)) - np.searchsorted(codes[few], codes[few])
    # Classes take turns in who begins: classes of one row must not all be in one half.
    half[few] = (rank + codes[few]) % 2
    limit = np.full(len(sizes), _limit(n_fitted / n), dtype=np.uint64)
    # At least one row of each half of a class: the fit that judges the others must know it.
    for side in (0, 1):
        mine = np.flatnonzero(half == side)
        least = np.full(len(sizes), np.iinfo(np.uint64).max)
        np.minimum.at(least, codes[mine], keys[mine])
        known = np.bincount(codes[mine], minlength=len(sizes)) > 0
        limit[known] = np.maximum(limit[known], least[known])
    return half, np.flatnonzero(keys <= limit[codes])


def _share_of_copies(contents: np.ndarray) -> float:
    """Return the share of the rows whose content another row has too.

    By the rows with the smallest keys, which are a random part of all different contents.
    """
    low = contents[contents <= min(4 * _COUNTED / max(len(contents), 1), 1.0) * _ALL]
    distinct, count = np.unique(low, return_counts=True)
    if len(distinct) < _COUNTED:
        _, count = np.unique(contents, return_counts=True)
    count = count[:_COUNTED]
    return float(count[count > 1].sum() / max(count.sum(), 1))


def _limit(share: float) -> int:
    return min((1 << 64) - 1, int(share * _ALL))
