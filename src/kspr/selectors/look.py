"""The first look at all rows: are they sound, which are copies, and what identifies them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from kspr.core.arrays import rows_times
from kspr.core.duplicates import CopySearch, directions, sharing
from kspr.core.halves import content_keys, row_content
from kspr.core.labels import name_rows
from kspr.errors import InputError
from kspr.selectors.parts import Columns, Features

_SEED = 0x636F7079
"""The same data has the same copies, whatever the user's seed is."""
_SPREAD_ROWS = 2048
_CONSTANT = 1e-6
"""Share of a column's mean below which its spread is rounding error."""


@dataclass(frozen=True)
class Census:
    """What is known of all rows before anything is fitted."""

    content: np.ndarray
    """A number of 64 bits for the content of each row: equal rows have the same."""
    keys: np.ndarray | None
    """Random numbers, ``(rows, seeds)``, that equal rows share; None where nobody asked."""
    copies: np.ndarray | None
    """Number of the set of copies that each row belongs to, -1 for none; None without copies."""


def look(features: Features, *, find_copies: bool, seeds: Sequence[int] = ()) -> Census:
    """Return the census of all rows; raise `InputError` for features that are not sound.

    With `find_copies`, rows are compared with each other. `seeds` are those of the content keys.
    """
    rng = np.random.default_rng(_SEED)
    views = _views(features, rng) if find_copies else None
    search = None if views is None else _search(features, views, rng)
    task = _Look(views if search else None, search, tuple(seeds))
    # A range: row numbers that travel to workers must not be written out.
    sound, columns = features.map(task, range(features.shape[0]), what="Looking at rows")
    sound.check()
    copies = None
    if views is not None and search is not None:
        rows = sharing(columns["cells"])
        copies = search.sets(views(features.take(rows)), rows, features.shape[0])
    return Census(columns["content"], columns.get("keys"), copies)


@dataclass(frozen=True)
class _Sound:
    """Whether the features of some rows can be worked with."""

    bad: np.ndarray
    """Numbers of the rows that hold NaN or infinity."""
    largest: float
    """Largest absolute value of the others."""
    limit: float
    """Largest value whose squares can be added up."""

    @classmethod
    def joined(cls, states: Sequence["_Sound"]) -> "_Sound":
        return cls(
            np.concatenate([state.bad for state in states]),
            max(state.largest for state in states),
            states[0].limit,
        )

    def check(self) -> None:
        """Raise `InputError` if a row is not finite, or too large."""
        if self.bad.size:
            raise InputError(
                f"X holds NaN or inf in {name_rows(self.bad)}. Drop these rows or fill them in "
                "(for example with sklearn.impute.SimpleImputer)."
            )
        if self.largest > self.limit or 0 < self.largest < 1 / self.limit:
            raise InputError(
                f"X must have a largest absolute value between {1 / self.limit:.0e} and "
                f"{self.limit:.0e}, got {self.largest:.0e}: its squares would be infinite or "
                "zero. Multiply X by a constant."
            )


@dataclass(frozen=True)
class _Look:
    """The task of `look`."""

    views: "_Views | None"
    search: CopySearch | None
    seeds: tuple[int, ...]

    def __call__(self, X: Any, row: range) -> tuple[_Sound, Columns]:
        columns = {"content": row_content(X)}
        if self.seeds:
            dense = X.toarray() if sp.issparse(X) else X
            columns["keys"] = np.stack([content_keys(dense, seed) for seed in self.seeds], axis=1)
        if self.views is not None and self.search is not None:
            # What is not finite is refused afterwards, by a message that names the rows.
            with np.errstate(all="ignore"):
                columns["cells"] = self.search.cells(self.views(X)[-1])
        return _sound(X, row), columns


def _sound(X: Any, row: range) -> _Sound:
    values = X.data if sp.issparse(X) else X
    # Well below the root of what overflows: squares of many rows are added up.
    limit = float(np.finfo(values.dtype).max) ** 0.4
    bad = np.empty(0, dtype=np.int64)
    # Two passes in cache, which show what is not finite too, instead of copies.
    with np.errstate(invalid="ignore"):
        top, low = (float(values.max()), float(values.min())) if values.size else (0.0, 0.0)
    if not (np.isfinite(top) and np.isfinite(low)):
        finite = np.isfinite(values)
        if sp.issparse(X):
            owner = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
            bad = row.start + np.unique(owner[~finite])
        else:
            bad = row.start + np.flatnonzero(~finite.all(axis=1))
    largest = max(top, -low)
    return _Sound(bad, 0.0 if bad.size else largest, limit)


@dataclass(frozen=True)
class _Views:
    """Rows as they are compared: the features, or projections of them, in two scales.

    In the rows as they are, a column of large numbers hides how they differ in the others; with
    columns of equal spread, one that hardly varies counts as much as any other. Copies are near
    each other in both.
    """

    mean: np.ndarray | None
    """None for sparse rows: centring would fill them, and they are compared in one scale."""
    scale: np.ndarray | None
    directions: np.ndarray | None

    def __call__(self, X: Any) -> list[np.ndarray]:
        if self.mean is None or self.scale is None:
            if self.directions is None:
                return [X.toarray() if sp.issparse(X) else X]
            return [np.asarray(X @ self.directions.astype(X.dtype))]
        centred = X - self.mean.astype(X.dtype)
        if self.directions is None:
            return [centred, centred * self.scale.astype(X.dtype)]
        # One product for both views: a row of features is read once.
        both = np.concatenate([self.directions, self.scale[:, None] * self.directions], axis=1)
        return np.split(rows_times(centred, both.astype(X.dtype)), 2, axis=1)


def _views(features: Features, rng: np.random.Generator) -> _Views:
    n, p = features.shape
    R = directions(p, rng)
    if features.sparse:
        return _Views(None, None, R)
    few = features.take(np.linspace(0, n - 1, min(n, _SPREAD_ROWS)).astype(np.int64))
    with np.errstate(all="ignore"):
        mean, spread = few.mean(axis=0, dtype=np.float64), few.std(axis=0, dtype=np.float64)
        varies = spread > _CONSTANT * np.abs(mean)
    scale = np.where(varies, 1 / np.where(varies, spread, 1.0), 0.0)
    return _Views(mean, scale, R)


def _search(features: Features, views: _Views, rng: np.random.Generator) -> CopySearch | None:
    n = features.shape[0]
    size = CopySearch.sample_size(n)
    if not size:
        return None
    rows = rng.choice(n, size, replace=False)
    with np.errstate(all="ignore"):
        sample = features.take(rows)
        exact = views.directions is None
        return CopySearch.from_sample(views(sample), n, rng, exact=exact)
