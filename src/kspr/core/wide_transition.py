"""The transition matrix of very many classes, which is never written out.

A matrix of 20,000 classes would take 3.2 GB, and so would its inverse. But the anchors of a class
are few: its wrong labels are spread evenly over all classes, apart from those that the anchors
show more often than chance would. So the matrix is a diagonal, plus a column times a row of ones,
plus a sparse part. So is its inverse (Sherman and Morrison), up to entries next to nothing.

This assumes of each class that more of its labels stay right than go to the classes of its own
sparse part: what is beyond that counts as spread evenly.
"""

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csc_array, csr_array, diags_array, vstack
from scipy.sparse.linalg import SuperLU, splu

__all__ = ["WideTransition", "rounded"]

_MOST_OWN = 0.9
"""Labels that go to a class's own directions, at most, as a share of those that stay right."""
_NOTHING = 1e-7
"""Entries of an inverse, whose largest are about 1, below which they are left out."""
_AT_ONCE = 256
"""Rows of the inverse that are solved for together."""


@dataclass(frozen=True)
class WideTransition:
    """How labels go wrong, with the methods of `Transition`."""

    right: np.ndarray
    """Chance of a right label, for each true class."""
    even: np.ndarray
    """Chance of every other label, for each true class, apart from `own`."""
    own: csr_array
    """What the chance of a label (column) is above `even`, given the true class (row)."""
    error: float
    counts: csr_array
    units: np.ndarray | None = None
    """What `weights` are multiples of; None where they are not rounded."""

    @classmethod
    def spread(
        cls, wrong: np.ndarray, evenly: np.ndarray, off: csr_array, error: float, counts: csr_array
    ) -> "WideTransition":
        """Return the matrix of classes with the share `wrong`, of which the part `evenly` is even.

        The rest goes where the wrong labels `off` of the anchors go.
        """
        c = len(wrong)
        most = _MOST_OWN * (1.0 - wrong) / np.maximum(wrong, 1e-300)
        evenly = np.maximum(evenly, 1.0 - most)
        total = np.maximum(off.sum(axis=1), 1.0)
        own = csr_array(diags_array(wrong * (1.0 - evenly) / total) @ off)
        own.eliminate_zeros()
        return cls(1.0 - wrong, wrong * evenly / (c - 1), own, error, counts)

    def mix(self, chance: np.ndarray) -> np.ndarray:
        """Return the chance of each label, given those of each class to be true: rows of both."""
        stays = (self.right - self.even).astype(chance.dtype)
        found = chance * stays + (chance @ self.even.astype(chance.dtype))[:, None]
        if self.own.nnz:
            found += chance @ self.own.astype(chance.dtype)
        return np.asarray(found)

    def columns(self, label: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """Return the chance of the given labels under each true class: ``(rows, classes)``."""
        found = self.own.T.tocsr()[label].toarray().astype(dtype)
        found += self.even.astype(dtype)
        found[np.arange(len(label)), label] = self.right[label]
        return np.asarray(found)

    def dot(self, values: np.ndarray) -> np.ndarray:
        """Return the matrix times a vector."""
        stays = (self.right - self.even) * values
        return np.asarray(stays + self.even * values.sum() + self.own @ values)

    def noisier(self, change: float | np.ndarray) -> "WideTransition":
        """Return the matrix with each row's share of wrong labels changed."""
        c = len(self.right)
        wrong = 1.0 - self.right
        changed = np.clip(wrong + change, 0.0, 0.99 * (1.0 - 1.0 / c))
        factor = np.divide(changed, wrong, out=np.zeros(c), where=wrong > 0)
        # A row without wrong labels shows no directions: new ones fall evenly.
        even = np.where(wrong > 0, self.even * factor, changed / (c - 1))
        own = csr_array(diags_array(factor) @ self.own)
        return replace(self, right=1.0 - changed, even=even, own=own)

    def solve(self, values: np.ndarray) -> np.ndarray:
        """Return the inverse times a vector."""
        return np.asarray(self._lu.solve(values) - self._column * (self._row @ values))

    def solve_transposed(self, values: np.ndarray) -> np.ndarray:
        """Return the transposed inverse times a vector, or times each column of a matrix."""
        spread = np.multiply.outer(self._row, self._column @ values)
        return np.asarray(self._lu.solve(np.asarray(values, dtype=np.float64), "T") - spread)

    def weights(self, label: np.ndarray, column: np.ndarray) -> np.ndarray:
        """Return what a sample with a label adds to the wrong ones of a class, as `Transition`."""
        middle, above, below = (
            (label == column) - noise.right[column] * noise._inverse_at(label, column)
            for noise in (self, *self._bounds)
        )
        found = np.stack([middle, middle**2, (above - below) / 2])
        return found if self.units is None else rounded(found, self.units)

    def weight_bounds(self) -> np.ndarray:
        """Return bounds on the sums of the sizes of the three `weights` over all classes."""
        middle, above, below = (1.0 + noise._inverse_bound() for noise in (self, *self._bounds))
        return np.array([middle, middle**2, (above + below) / 2])

    def with_rounded_weights(self, units: np.ndarray) -> "WideTransition":
        """Return the same with `weights` that are multiples of the three `units`."""
        found = replace(self, units=units)
        # What is factored and inverted already stays so.
        found.__dict__.update({**self.__dict__, "units": units})
        return found

    def __getstate__(self) -> dict[str, Any]:
        # Factors cannot be sent to other processes, which make them again.
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def _inverse_bound(self) -> float:
        """Return a bound on the sum of the sizes of any row of the inverse, times `right`."""
        spread = np.abs(self._column).max() * np.abs(self._row).sum()
        if not self.own.nnz:
            return float(spread + np.abs(1 / (self.right - self.even)).max())
        place, value = self._sparse_inverse
        sums = np.bincount(place // len(self.right), np.abs(value), minlength=len(self.right))
        return float(spread + sums.max())

    @cached_property
    def _bounds(self) -> tuple["WideTransition", "WideTransition"]:
        return self.noisier(self.error), self.noisier(-self.error)

    @cached_property
    def _lu(self) -> SuperLU:
        """The sparse part of the matrix with its diagonal, factored."""
        return splu(csc_array(diags_array(self.right - self.even) + self.own))

    # The inverse is that of the sparse part, minus `_column` times `_row`.

    @cached_property
    def _column(self) -> np.ndarray:
        spread = self._lu.solve(self.even)
        return np.asarray(spread / (1.0 + spread.sum()))

    @cached_property
    def _row(self) -> np.ndarray:
        return np.asarray(self._lu.solve(np.ones_like(self.even), "T"))

    @cached_property
    def _sparse_inverse(self) -> tuple[np.ndarray, np.ndarray]:
        """Places, row by row, and values of the entries of the inverse's sparse part."""
        c, parts = len(self.right), []
        for start in range(0, c, _AT_ONCE):
            unit = np.eye(c, min(_AT_ONCE, c - start), -start)
            rows = self._lu.solve(unit, "T").T
            rows[np.abs(rows) < _NOTHING] = 0.0
            parts.append(csr_array(rows))
        found = vstack(parts, format="coo")
        return found.row.astype(np.int64) * c + found.col, found.data

    def _inverse_at(self, row: np.ndarray, column: np.ndarray) -> np.ndarray:
        """Return entries of the inverse."""
        rest = -self._column[row] * self._row[column]
        if not self.own.nnz:
            return np.asarray(rest + (row == column) / (self.right - self.even)[row])
        place, value = self._sparse_inverse
        wanted = row.astype(np.int64) * len(self.right) + column
        near = np.minimum(np.searchsorted(place, wanted), len(place) - 1)
        return np.asarray(rest + np.where(place[near] == wanted, value[near], 0.0))


def rounded(weights: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Return weights ``(3, pairs)`` as multiples of their units, which are powers of two."""
    return np.asarray(np.rint(weights / units[:, None]) * units[:, None])
