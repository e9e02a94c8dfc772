"""Random halves of the rows: each half is judged by what the other has learned.

Where classes have few rows halves are halved again, into folds that are judged by all others.

Small data is shuffled, and every class divided equally. Large data is not: a row's number and the
seed give it a random key, and the content of a row another one. So a row's half does not depend on
how many rows there are, and a random part of them needs no list of all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from kspr.core.arrays import row_blocks
from kspr.errors import InputError

__all__ = [
    "HalfRows",
    "assign_halves",
    "content_keys",
    "n_folds",
    "random_folds",
    "random_halves",
    "row_content",
    "row_keys",
    "rows_by_half",
    "thinned",
]

_SMALL = 64
"""Classes of at most this many rows are divided equally; larger ones row by row, which leaves their
halves equal up to chance."""
_FOLDS, _FEW_ROWS, _FEW_VALUES = 8, 500, 1 << 24
"""Folds of classes of this many rows or fewer, on average, unless rows times classes are many. With
eight instead of two, recall is .01 to .1 larger on digits, texts and up to 5,000 rows of CIFAR-10,
at an error rate that is the same."""
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
    return _mixed(row_content(X, seed) ^ _mixed(np.array([seed], dtype=np.uint64)))


def row_content(X: Any, seed: int = 0) -> np.ndarray:
    """Return a number for the content of each row, the same for rows however they are stored."""
    odd = row_keys(0, X.shape[1], seed) | np.uint64(1)
    if sp.issparse(X):
        return np.asarray(sp.csr_array((_words(X.data), X.indices, X.indptr), shape=X.shape) @ odd)
    content = np.empty(X.shape[0], dtype=np.uint64)
    # As words, values take up to three times their memory.
    for rows in row_blocks(*X.shape):
        content[rows] = _words(np.ascontiguousarray(X[rows])) @ odd
    return content


def _words(values: np.ndarray) -> np.ndarray:
    # Adding 0 turns -0 into 0: the two are equal, and so must be their bits.
    values = values + values.dtype.type(0)
    words = values.view(np.uint32 if values.itemsize == 4 else np.uint64).astype(np.uint64)
    # Low bits of small whole numbers are zero, and a product would have no others.
    words ^= words >> np.uint64(32)
    words ^= words >> np.uint64(16)
    return words


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


@dataclass(frozen=True)
class HalfRows:
    """Rows of one half that are fitted, class by class."""

    index: np.ndarray
    """Their numbers in the data."""
    label: np.ndarray
    """Codes of their labels."""


def random_halves(
    codes: np.ndarray, rng: np.random.Generator, together: np.ndarray | None = None
) -> tuple[HalfRows, HalfRows]:
    """Return all rows in two random halves, every class divided equally.

    Rows of one set, numbered by `together` with -1 for none, are in one half. Raise `InputError`
    where the other would be empty then.
    """
    order = rng.permutation(len(codes))
    # A stable sort of a shuffle: classes in order, rows random within each.
    order = order[np.argsort(codes[order], kind="stable")]
    half = None if together is None else _halves_of_sets(codes[order], together[order])
    if half is None:
        # Dealing across the class borders keeps the halves within one row of each other.
        half = np.arange(len(order)) % 2
    return _two_halves(order, codes[order], half)


def n_folds(n_rows: int, n_classes: int) -> int:
    """Return the number of folds that rows are cut in: two halves, unless classes have few rows.

    With half of them a fit knows few rows of a class, and with seven eighths it costs little more.
    """
    few = n_rows <= _FEW_ROWS * n_classes and n_rows * n_classes <= _FEW_VALUES
    return _FOLDS if few else 2


def random_folds(
    codes: np.ndarray, n: int, rng: np.random.Generator, together: np.ndarray | None = None
) -> list[HalfRows]:
    """Return all rows in `n` random folds, a power of two, every class divided equally.

    Halves are halved again, so that folds with even numbers are one half, and the others the other.
    Rows of one set, numbered by `together` with -1 for none, are in one fold.
    """
    folds = list(random_halves(codes, rng, together))
    while len(folds) < n:
        pairs = [_halved(fold, codes, rng, together) for fold in folds]
        folds = [pair[side] for side in (0, 1) for pair in pairs]
    return folds


def _halved(
    rows: HalfRows, codes: np.ndarray, rng: np.random.Generator, together: np.ndarray | None
) -> tuple[HalfRows, HalfRows]:
    sets = None if together is None else together[rows.index]
    try:
        first, second = random_halves(codes[rows.index], rng, sets)
    except InputError:
        # All of them belong together.
        return rows, HalfRows(rows.index[:0], rows.label[:0])
    one, other = (HalfRows(rows.index[half.index], half.label) for half in (first, second))
    return one, other


def rows_by_half(
    rows: np.ndarray, codes: np.ndarray, half: np.ndarray
) -> tuple[HalfRows, HalfRows]:
    """Return the given rows, which ascend, by their halves: see `core/halves.py`."""
    order = np.argsort(codes, kind="stable")
    return _two_halves(rows[order], codes[order], half[order])


def thinned(halves: Sequence[HalfRows], n_rows: int) -> Sequence[HalfRows]:
    """Return about `n_rows` of the rows, the same share of every class.

    In every part at least one row of each class stays. Rows of a class are in random order, so
    the first ones are a random part.
    """
    share = n_rows / sum(len(half.index) for half in halves)
    if share >= 1:
        return halves
    return [_first_of_classes(half, share) for half in halves]


def _first_of_classes(half: HalfRows, share: float) -> HalfRows:
    sizes = np.bincount(half.label)
    place = np.arange(len(half.label)) - (np.cumsum(sizes) - sizes)[half.label]
    kept = place < np.ceil(share * sizes)[half.label]
    return HalfRows(half.index[kept], half.label[kept])


def _two_halves(rows: np.ndarray, codes: np.ndarray, half: np.ndarray) -> tuple[HalfRows, HalfRows]:
    first, second = (HalfRows(rows[half == side], codes[half == side]) for side in (0, 1))
    return first, second


def _halves_of_sets(label: np.ndarray, together: np.ndarray) -> np.ndarray | None:
    """Return the half of each sample, 0 or 1; None where no two of them belong together.

    Samples stand class by class, in random order within a class, and `label` has the positions of
    their classes. `together` numbers sets of samples that must be in one half, -1 for none.

    The largest sets are placed first, each where its classes are fewer; samples alone then even
    out what they can.
    """
    sizes = np.bincount(together[together >= 0], minlength=1)
    several = (together >= 0) & (sizes[together] > 1)
    if not several.any():
        return None
    n_classes = int(label[-1]) + 1
    # (set, class) and how many: most sets have one class, and a full table would be too large.
    key, count = np.unique(together[several] * n_classes + label[several], return_counts=True)
    entries: dict[int, list[tuple[int, int]]] = {}
    for code, m in zip(key.tolist(), count.tolist(), strict=True):
        entries.setdefault(code // n_classes, []).append((code % n_classes, m))
    # Where sets begin in the shuffled order: those of one class and size are placed at random.
    _, begin = np.unique(together[several], return_index=True)
    turn = dict(zip(entries, begin.tolist(), strict=True))
    ahead, side = [0] * n_classes, np.zeros(len(sizes), dtype=np.int64)
    for number in sorted(entries, key=lambda number: (-sizes[number], turn[number])):
        lean = sum(m * ahead[k] for k, m in entries[number])
        # Half 0 is ahead by `lean`, weighted by class; without a difference in these classes, the
        # smaller half takes the set.
        chosen = int((lean or sum(ahead)) > 0)
        side[number] = chosen
        for k, m in entries[number]:
            ahead[k] += m - 2 * m * chosen
    half = np.where(several, side[together], -1)
    _deal(half, label, np.array(ahead))
    if half.min() == half.max():
        raise InputError(
            f"All {len(label):,} rows belong together, so that one of the two halves would be "
            "empty. Pass smaller groups, or duplicates='ignore'."
        )
    return half


def _deal(half: np.ndarray, label: np.ndarray, ahead: np.ndarray) -> None:
    """Fill in the halves that are -1, so that the classes' halves differ as little as possible."""
    free = np.flatnonzero(half < 0)
    count = np.bincount(label[free], minlength=len(ahead))
    position = np.arange(len(free)) - np.repeat(np.cumsum(count) - count, count)
    # The smaller half of a class catches up; what is left goes to both halves in turn.
    behind, short = (ahead > 0)[label[free]], np.minimum(np.abs(ahead), count)[label[free]]
    catching_up = position < short
    half[free[catching_up]] = behind[catching_up]
    rest = free[~catching_up]
    # In turn across the class borders; a half that is still smaller begins.
    begins = int(2 * (half == 0).sum() > (half >= 0).sum())
    half[rest] = (np.arange(len(rest)) + begins) % 2
