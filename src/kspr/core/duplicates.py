"""Rows that are copies of each other, exactly or nearly, found without comparing all pairs.

A copy of a row tells its label: a fit that has seen the copy does not judge the row afresh.
Rows are compared by a few random projections, which keep distances. Rows in one cell of a
grid over them are candidates; only neighbours within a cell are measured.

Sets of rows are given as numbers, one per row: -1 for a row that belongs to no set.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kspr.core.arrays import row_blocks

_DIRECTIONS = 16
"""Projections of a row: enough to tell its copies from its neighbours."""
_HASHED = 8
"""Dimensions of the grid."""
_NEAR = 0.2
"""Largest distance of copies, as a share of the usual distance to the nearest row."""
_BY_CHANCE = 0.01
"""Expected number of pairs that are this near without being copies."""
_SAMPLE, _QUERIES, _NEIGHBOURS = 2048, 128, 10
_ROUNDING = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-12}
"""Share of the features' size by which projections of equal rows can differ."""
_FLAT = 1e-7
"""Share of the features' size below which distances that come from products are zero."""
_CELL, _FINEST = 4.0, 1e-5
"""Width of a cell, in usual differences of copies; and its least share of the features' size."""
_ALONG = 3
"""With how many rows of its cell, in order, a row is compared."""


def directions(n_features: int, rng: np.random.Generator) -> np.ndarray | None:
    """Return random directions, ``(features, 16)``; None where the features are no more than that.

    Projections on them have the lengths of the rows, on average.
    """
    if n_features <= _DIRECTIONS:
        return None
    return np.asarray(rng.standard_normal((n_features, _DIRECTIONS)) / np.sqrt(_DIRECTIONS))


@dataclass(frozen=True)
class CopySearch:
    """How near copies are to each other, and the cells in which they are looked for.

    Rows are known by *views*, which have one line per row each: the features themselves, or
    projections of them. Copies are near each other in every view: nearer than a fifth of the usual
    distance to the nearest row, and nearer than any two rows would be by chance.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((50, 3))
    >>> X[7] = X[3]
    >>> search = CopySearch.from_sample([X], len(X), rng, exact=True)
    >>> rows = sharing(search.cells(X))
    >>> search.sets([X[rows]], rows, len(X))[:8].tolist()
    [-1, -1, -1, 0, -1, -1, -1, 0]
    """

    limits: tuple[float, ...]
    """Largest distance of copies, by view."""
    equal: tuple[float, ...]
    """Largest distance of rows that are equal but for rounding, by view."""
    grid: "_Grid"
    """Cells over the last view."""

    @classmethod
    def from_sample(
        cls, views: Sequence[np.ndarray], n_rows: int, rng: np.random.Generator, *, exact: bool
    ) -> "CopySearch | None":
        """Return the search among `n_rows` rows, given the views of a random sample of them.

        None where most rows have an equal one: these are no copies, but what a table with few
        values looks like. Views are `exact` where they are the features themselves.
        """
        limits, equal = [], []
        for view in views:
            if not np.isfinite(view).all():
                return None
            size = _size(view)
            limit = _nearness(view, n_rows, size)
            if limit is None:
                return None
            equal.append(0.0 if exact else _ROUNDING[view.dtype] * size)
            limits.append(max(limit, equal[-1]))
        grid = _Grid.turned(view.shape[1], limits[-1], size, rng)
        return cls(tuple(limits), tuple(equal), grid)

    @staticmethod
    def sample_size(n_rows: int) -> int:
        """Return how many rows `from_sample` needs; 0 where too few rows are there to compare."""
        return min(n_rows, _SAMPLE) if n_rows > _NEIGHBOURS else 0

    def cells(self, last: np.ndarray) -> np.ndarray:
        """Return the two cells of each row, ``(rows, 2)``, given its line in the last view."""
        return self.grid.cells(self.grid.places(last)).T

    def sets(self, views: Sequence[np.ndarray], rows: np.ndarray, n_rows: int) -> np.ndarray | None:
        """Return the set of copies that each of `n_rows` rows belongs to, -1 for none.

        None without any copies. `views` are those of `rows`, which ascend: of the rows that share
        a cell with others.
        """
        if not len(rows):
            return None
        among = _sets_among(views, self.grid, self.limits, self.equal)
        if not (among >= 0).any():
            return None
        sets = np.full(n_rows, -1, dtype=np.int64)
        # Ascending rows: sets stay numbered by their first rows.
        sets[rows] = among
        return sets


def sharing(cells: np.ndarray) -> np.ndarray:
    """Return the rows, ascending, that share one of their cells ``(rows, 2)`` with another row."""
    shared = np.zeros(len(cells), dtype=bool)
    for cell in cells.T:
        # Values are sorted, not row numbers by them: that takes a third of the memory.
        ordered = np.sort(cell)
        twice = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
        if len(twice):
            place = np.minimum(np.searchsorted(twice, cell), len(twice) - 1)
            shared |= twice[place] == cell
    return np.flatnonzero(shared)


def _sets_among(
    views: Sequence[np.ndarray], grid: "_Grid", limits: Sequence[float], equal: Sequence[float]
) -> np.ndarray:
    """Return the sets of copies of rows that are at hand."""
    n = len(views[-1])
    pairs = _candidates(views[-1], grid)
    pairs = np.compress(_within(views, pairs, limits), pairs, axis=1)
    sets = _components(n, pairs)
    wide = _too_wide(views[-1], sets, 2 * limits[-1])
    if wide.any():
        # A dense region of the data, each row near the next: only equal rows are copies there.
        sets[wide] = -1
        same = wide[pairs[0]] & _within(views, pairs, equal)
        sets = join_sets(sets, _components(n, np.compress(same, pairs, axis=1)))
    return sets


def join_sets(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return sets such that rows of one set of either stay together.

    >>> join_sets(np.array([0, 0, -1, -1]), np.array([-1, 5, 5, -1])).tolist()
    [0, 0, 0, -1]
    """
    pairs = []
    for sets in (first, second):
        order = np.argsort(sets, kind="stable")
        same = (sets[order[1:]] == sets[order[:-1]]) & (sets[order[1:]] >= 0)
        pairs.append(np.stack([order[:-1][same], order[1:][same]]))
    return _components(len(first), np.concatenate(pairs, axis=1))


def repeated(sets: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Return which rows are copies of an earlier row with the same label.

    >>> repeated(np.array([0, -1, 0, 0]), np.array([1, 1, 1, 2]))
    array([False, False,  True, False])
    """
    rows, _, first, _ = _labels_of_sets(sets, label)
    repeats = sets >= 0
    repeats[rows[first]] = False
    return repeats


def conflicting(sets: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Return which rows belong to a set whose rows have different labels.

    >>> conflicting(np.array([0, 0, 1, 1]), np.array([1, 2, 1, 1]))
    array([ True,  True, False, False])
    """
    rows, owner, _, _ = _labels_of_sets(sets, label)
    conflicts = np.zeros(len(sets), dtype=bool)
    conflicts[rows] = (np.bincount(owner) > 1)[sets[rows]]
    return conflicts


def contradicted(sets: np.ndarray, label: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Return which rows have a copy whose other label fits better: selection times `Z` are smaller.

    At most one label of a set of copies is right, so the others would not be worth keeping.

    >>> contradicted(np.array([0, 0, -1]), np.array([1, 2, 1]), np.array([0.9, 0.3, 2.0]))
    array([ True, False, False])
    """
    rows, owner, _, number = _labels_of_sets(sets, label)
    # A label of a set by its mean: copies that are only nearly equal have times of their own.
    mean = np.bincount(number, weights=Z[rows]) / np.bincount(number)
    best = np.full(len(sets), np.inf)
    np.minimum.at(best, owner, mean)
    lost = np.zeros(len(sets), dtype=bool)
    lost[rows] = (mean > best[owner])[number]
    return lost


def _labels_of_sets(sets: np.ndarray, label: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return which rows are in sets, and the different labels of each set.

    These have three arrays: the set of each label, the first of the rows that has it, and for
    every row which of them it has.
    """
    rows = np.flatnonzero(sets >= 0)
    width = int(label.max()) + 1
    key = sets[rows] * width + label[rows]
    distinct, first, number = np.unique(key, return_index=True, return_inverse=True)
    return rows, distinct // width, first, number


def _size(rows: np.ndarray) -> float:
    """Return the usual distance of a row from the mean."""
    return float(np.sqrt(((rows - rows.mean(axis=0)) ** 2).sum(axis=1, dtype=np.float64).mean()))


def _nearness(rows: np.ndarray, n: int, size: float) -> float | None:
    """Return how near copies are, from a sample of `n` rows; None where most rows have an equal."""
    S = rows.astype(np.float64) - rows.mean(axis=0, dtype=np.float64)
    square = (S * S).sum(axis=1)
    few = min(len(S), _QUERIES)
    distance = square[:few, None] + square - 2 * S[:few] @ S.T
    np.fill_diagonal(distance, np.inf)
    k = min(_NEIGHBOURS, len(S) - 1)
    distance = np.sort(np.partition(distance, k - 1, axis=1)[:, :k], axis=1)
    distance = np.sqrt(np.clip(distance, 0.0, None))
    # Rows with an equal one in the sample say nothing about how far others are from each other.
    distance = distance[distance[:, 0] > _FLAT * size]
    if len(distance) < few / 2:
        return None
    # Of rows that are spread evenly in D dimensions, a share of t ** D has its nearest neighbour
    # within t times the usual distance. Levina and Bickel's estimate of 1 / D.
    inverse = float(np.median(np.log(distance[:, -1:] / distance[:, :-1]).mean(axis=1)))
    # The sample is thinner than the data: its neighbours are further apart.
    usual = float(np.median(distance[:, 0])) * (len(S) / n) ** inverse
    return float(min(_NEAR, (_BY_CHANCE / n) ** inverse) * usual)


@dataclass(frozen=True)
class _Grid:
    """Cells over a view; there are two grids, so that no border divides a pair in both."""

    turn: np.ndarray
    width: float
    odd: np.ndarray

    @classmethod
    def turned(cls, d: int, limit: float, size: float, rng: np.random.Generator) -> "_Grid":
        # Turned at random, so that no column with few values decides about a cell.
        turn = np.linalg.qr(rng.standard_normal((d, d)))[0][:, :_HASHED]
        width = max(_CELL * limit / np.sqrt(d), _FINEST * size)
        odd = np.asarray(rng.integers(1 << 62, size=turn.shape[1]))
        return cls(turn, width, odd | 1)

    def places(self, view: np.ndarray) -> np.ndarray:
        """Return where the rows lie, in cells."""
        return np.asarray((view @ self.turn.astype(view.dtype)) / self.width)

    def cells(self, places: np.ndarray) -> np.ndarray:
        """Return the cell of each row in both grids: ``(2, rows)``."""
        # Products that overflow are a hash of the cell.
        return np.stack([np.floor(places + s).astype(np.int64) @ self.odd for s in (0.0, 0.5)])


def _candidates(view: np.ndarray, grid: _Grid) -> np.ndarray:
    """Return pairs of rows that may be copies, ``(2, pairs)``: neighbours in a cell of a grid."""
    places = grid.places(view)
    pairs = []
    for cell in grid.cells(places):
        order = np.lexsort((places[:, 0], cell))
        for step in range(1, _ALONG + 1):
            a, b = order[:-step], order[step:]
            together = cell[a] == cell[b]
            pairs.append(np.stack([a[together], b[together]]))
    return np.concatenate(pairs, axis=1)


def _within(views: Sequence[np.ndarray], pairs: np.ndarray, limits: Sequence[float]) -> np.ndarray:
    """Return which pairs are at most the limit apart, in every view."""
    near = np.ones(pairs.shape[1], dtype=bool)
    for view, limit in zip(views, limits, strict=True):
        for part in row_blocks(pairs.shape[1], view.shape[1]):
            a, b = pairs[:, part]
            near[part] &= np.linalg.norm(view[a] - view[b], axis=1) <= limit
    return near


def _components(n: int, pairs: np.ndarray) -> np.ndarray:
    """Return the sets that `pairs` make of `n` rows, numbered by their first rows."""
    # Imported here: a saved selection is read without SciPy's graphs, which take long to load.
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(pairs.shape[1], dtype=bool), tuple(pairs)), shape=(n, n))
    _, number = connected_components(graph, directed=False)
    sets = np.full(n, -1, dtype=np.int64)
    several = np.bincount(number)[number] > 1
    # Components are numbered by their first rows, and unique keeps their order.
    sets[several] = np.unique(number[several], return_inverse=True)[1]
    return sets


def _too_wide(view: np.ndarray, sets: np.ndarray, limit: float) -> np.ndarray:
    """Return which rows belong to a set that reaches further than `limit` from its mean."""
    rows = np.flatnonzero(sets >= 0)
    number = sets[rows]
    count = np.bincount(number)
    total = np.zeros((len(count), view.shape[1]))
    np.add.at(total, number, view[rows])
    far = np.linalg.norm(view[rows] - (total / count[:, None])[number], axis=1) > limit
    wide = np.zeros(len(sets), dtype=bool)
    wide[rows] = (np.bincount(number, weights=far) > 0)[number]
    return wide
