"""What is left of a fit once it is made: fitted values as a linear function of the features.

The fit itself lives in coordinates that are good for arithmetic. To judge rows, their basis and
its coefficients are multiplied once, and a row costs one product with its features, whatever the
number of coordinates.
"""

from dataclasses import dataclass

import numpy as np

from kspr.core.arrays import room_for_tiles, rows_times, tile_type
from kspr.core.regression import Basis

__all__ = ["LinearFit"]


@dataclass(frozen=True)
class LinearFit:
    """The fitted values of every class, by the half that a row is in."""

    mean: np.ndarray  # (p,)
    coefficients: np.ndarray  # (2, p, c)
    constant: np.ndarray  # (2, c)

    @classmethod
    def in_features(cls, basis: Basis, beta: np.ndarray) -> "LinearFit":
        """Return the fit whose coefficients in the coordinates of `basis` are `beta`, (2, k, c)."""
        first = int(basis.intercept)
        # Double precision: this is done once, and every fitted value depends on it.
        coefficients = basis.directions.astype(np.float64) @ beta[:, first:, :].astype(np.float64)
        constant = beta[:, 0, :] if basis.intercept else np.zeros_like(beta[:, 0, :])
        return cls(basis.mean[0, 0, :], coefficients.astype(beta.dtype), constant)

    @property
    def n_classes(self) -> int:
        """Number of columns of the fitted values."""
        return int(self.constant.shape[1])

    def predict(self, X: np.ndarray, half: np.ndarray) -> np.ndarray:
        """Return the fitted values ``(rows, c)`` of features ``(rows, p)``.

        `half` says which half each row is in; the fit on the other half judges it.
        """
        p, c = self.coefficients.shape[1:]
        found = np.empty((len(half), c), dtype=self.constant.dtype)
        dtype = tile_type(p, c, found.dtype)
        for side in (0, 1):
            rows = np.flatnonzero(half == side)
            part = X if len(rows) == len(half) else X[rows]
            centred = room_for_tiles(len(rows), p, dtype)
            np.subtract(part, self.mean.astype(dtype), out=centred[: len(rows)])
            product = rows_times(centred, self.coefficients[side])[: len(rows)]
            found[rows] = product + self.constant[side]
        return found
