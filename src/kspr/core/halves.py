"""Which half a row is in, and whether it is fitted, decided row by row.

Large data is not shuffled: a row's number and the seed give it a random key, and what must be known
of all rows to use the keys is a state that blocks of rows add to and that merge. So no list of all
rows exists anywhere, and whoever holds a row knows its half.
"""

import hashlib
from dataclasses import dataclass

import numpy as np

from kspr.core.arrays import row_blocks

__all__ = ["Census", "HalfAssignment", "content_keys", "row_keys", "text_keys"]

_SMALL = 64
"""Classes of at most this many rows are dealt out exactly; larger ones row by row, which leaves
their halves equal up to chance. Of larger classes, this many rows of the smallest keys are known.
"""
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


def text_keys(values: np.ndarray, seed: int) -> np.ndarray:
    """Return a random number of 64 bits for each entry, the same for entries of the same text."""
    if values.dtype.kind == "O":
        # Values of several types cannot be sorted; their texts can.
        values = np.array([str(value) for value in values])
    distinct, place = np.unique(values, return_inverse=True)
    key = seed.to_bytes(8, "little")
    digests = [
        hashlib.blake2b(str(value).encode(), digest_size=8, key=key).digest()
        for value in distinct.tolist()
    ]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)[place]


@dataclass(frozen=True)
class Census:
    """Counts of rows, as far as halves depend on them; codes are those of `classes`."""

    classes: np.ndarray
    sizes: np.ndarray
    """Rows of each class by the last bits of content key and row key: ``(classes, 2, 2)``."""
    code: np.ndarray
    """Classes of the rows with the smallest keys of each class, ascending."""
    key: np.ndarray
    """The keys of these rows."""
    content_bit: np.ndarray
    """The last bits of their content keys."""
    lowest: np.ndarray
    """The smallest content keys, ascending."""
    copies: np.ndarray
    """How many rows have each of them."""

    @classmethod
    def of(
        cls, classes: np.ndarray, codes: np.ndarray, keys: np.ndarray, contents: np.ndarray
    ) -> "Census":
        """Count a block of rows: `keys` are its `row_keys`.

        Rows that belong together share a number in `contents`, such as their `content_keys`;
        without such rows, pass the keys.
        """
        bit, other = (_last_bit(numbers) for numbers in (contents, keys))
        sizes = np.bincount(4 * codes + 2 * bit + other, minlength=4 * len(classes))
        low = _lowest(contents, _COUNTED)
        return cls(
            classes,
            sizes.reshape(-1, 2, 2),
            *_first(codes, keys, bit),
            *_counted(low, np.ones(len(low), dtype=np.int64)),
        )

    def merge(self, other: "Census") -> "Census":
        """Return the counts of the rows of both, with the classes of both."""
        joined = np.concatenate([self.classes, other.classes])
        classes, place = np.unique(joined, return_inverse=True)
        own, theirs = np.split(place, [len(self.classes)])
        sizes = np.zeros((len(classes), 2, 2), dtype=np.int64)
        sizes[own] += self.sizes
        sizes[theirs] += other.sizes
        return Census(
            classes,
            sizes,
            *_first(
                np.concatenate([own[self.code], theirs[other.code]]),
                np.concatenate([self.key, other.key]),
                np.concatenate([self.content_bit, other.content_bit]),
            ),
            *_counted(
                np.concatenate([self.lowest, other.lowest]),
                np.concatenate([self.copies, other.copies]),
            ),
        )

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.sizes.sum())

    @property
    def share_of_copies(self) -> float:
        """Share of the rows whose content key another row has too.

        By the rows with the smallest ones, which are a random part of all different ones.
        """
        total = int(self.copies.sum())
        return float(self.copies[self.copies > 1].sum() / total) if total else 0.0

    def assign(self, fit_rows: int, *, groups: bool = False) -> "HalfAssignment":
        """Return the half of every row, and which rows, about `fit_rows`, are fitted.

        Rows of one content key are in one half, with two exceptions unless these keys are those of
        the user's `groups`: small classes are divided equally, and where most rows have a copy,
        equal rows are no copies but what a table with few values looks like.
        """
        by_content = groups or self.share_of_copies <= _MOST
        few = (self.sizes.sum(axis=(1, 2)) <= _SMALL) & (not groups)
        rank = np.arange(len(self.code)) - np.searchsorted(self.code, self.code)
        # Classes take turns in who begins: classes of one row must not all be in one half.
        in_turn = (rank + self.code) % 2
        half = np.where(
            few[self.code], in_turn, self.content_bit if by_content else _last_bit(self.key)
        )
        small = few[self.code]
        sizes = self.sizes.sum(axis=2 if by_content else 1)
        sizes[few] = 0
        np.add.at(sizes, (self.code[small], half[small]), 1)
        limit = np.full(len(self.classes), _limit(fit_rows / self.n_rows), dtype=np.uint64)
        # At least one row of each half of a class: the fit that judges the others must know it.
        for side in (0, 1):
            mine = half == side
            code, first = np.unique(self.code[mine], return_index=True)
            limit[code] = np.maximum(limit[code], self.key[mine][first])
        order = np.argsort(self.key[small])
        return HalfAssignment(
            few, self.key[small][order], half[small][order], limit, sizes, by_content
        )


def _last_bit(numbers: np.ndarray) -> np.ndarray:
    return (numbers & np.uint64(1)).astype(np.int64)


def _first(
    code: np.ndarray, key: np.ndarray, bit: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows with the smallest keys of each class, class by class."""
    sizes = np.bincount(code)
    # Most rows are far from the smallest of a large class, and are not sorted.
    low = key <= (np.minimum(4 * _SMALL / np.maximum(sizes, 1), 1.0) * _ALL)[code]
    if (np.bincount(code[low], minlength=len(sizes)) >= np.minimum(sizes, _SMALL)).all():
        code, key, bit = code[low], key[low], bit[low]
    order = np.lexsort((key, code))
    ordered = code[order]
    order = order[np.arange(len(order)) - np.searchsorted(ordered, ordered) < _SMALL]
    return code[order], key[order], bit[order]


def _lowest(values: np.ndarray, wanted: int) -> np.ndarray:
    """Return a part of the values with the smallest `wanted` different ones, and all of each."""
    low = values[values <= min(4 * wanted / max(len(values), 1), 1.0) * _ALL]
    return low if len(np.unique(low)) >= wanted else values


def _counted(values: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest different values, ascending, with the sums of their counts."""
    distinct, place = np.unique(values, return_inverse=True)
    total = np.zeros(len(distinct), dtype=np.int64)
    np.add.at(total, place, counts)
    return distinct[:_COUNTED], total[:_COUNTED]


def _limit(share: float) -> int:
    return min((1 << 64) - 1, int(share * _ALL))


@dataclass(frozen=True)
class HalfAssignment:
    """Which half each row is in, and whether it is fitted, by its code and its keys."""

    few: np.ndarray
    """Whether each class is dealt out exactly."""
    key: np.ndarray
    """Keys of all rows of such classes, ascending, and their halves."""
    half: np.ndarray
    limit: np.ndarray
    """Largest key of a row that is fitted, class by class."""
    sizes: np.ndarray
    """Rows of each class in each half."""
    by_content: bool
    """Whether rows of one content key are in one half; else row keys decide."""

    def halves(self, codes: np.ndarray, keys: np.ndarray, contents: np.ndarray) -> np.ndarray:
        """Return the half of each row, 0 or 1."""
        half = _last_bit(contents if self.by_content else keys).astype(np.int8)
        rows = np.flatnonzero(self.few[codes])
        half[rows] = self.half[np.searchsorted(self.key, keys[rows])]
        return half

    def fitted(self, codes: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """Return the numbers of the rows that are fitted, ascending."""
        return np.flatnonzero(keys <= self.limit[codes])
