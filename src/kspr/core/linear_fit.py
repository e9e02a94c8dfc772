"""What is left of a fit once it is made: fitted values as a linear function of the features.

The fit itself lives in coordinates that are good for arithmetic. To judge rows, their basis and
its coefficients are multiplied once, and a row costs one product with its features, whatever the
number of coordinates.
"""

from dataclasses import dataclass

import numpy as np

from kspr.core.arrays import Array, double, namespace, rows_times
from kspr.core.regression import Basis

__all__ = ["LinearFit"]


@dataclass(frozen=True)
class LinearFit:
    """The fitted values of every class, by the half that a row is in."""

    mean: Array  # (p,)
    coefficients: Array  # (2, p, c)
    constant: Array  # (2, c)

    @classmethod
    def in_features(cls, basis: Basis, beta: Array) -> "LinearFit":
        """Return the fit whose coefficients in the coordinates of `basis` are `beta`, (2, k, c)."""
        xp, first = namespace(beta), int(basis.intercept)
        # Double precision: this is done once, and every fitted value depends on it.
        coefficients = double(basis.directions) @ double(beta[:, first:, :])
        constant = beta[:, 0, :] if basis.intercept else xp.zeros_like(beta[:, 0, :])
        return cls(basis.mean[0, 0, :], xp.astype(coefficients, beta.dtype), constant)

    @property
    def n_classes(self) -> int:
        """Number of columns of the fitted values."""
        return int(self.constant.shape[1])

    def predict(self, X: Array, half: np.ndarray) -> np.ndarray:
        """Return the fitted values ``(rows, c)`` of features ``(rows, p)``.

        `half` says which half each row is in; the fit on the other half judges it.
        """
        values = np.empty((len(half), self.n_classes), dtype=self.constant.dtype)
        for side in (0, 1):
            rows = np.flatnonzero(half == side)
            part = X if len(rows) == len(half) else X[rows]
            product = rows_times(part - self.mean, self.coefficients[side])
            values[rows] = product + self.constant[side]
        return values
