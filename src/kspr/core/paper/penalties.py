"""Penalties on the mean shifts.

A penalty is one function: the magnitude that is held against the level ``lam``, one per
penalised unit. A unit is a whole row (`group`) or a single entry (`lasso`). Everything
else follows from it: the shrunken mean shift, the weights of the Huber form, and the
closed form of step ii.
"""

from typing import Protocol

import numpy as np

__all__ = ["PENALTIES", "Penalty", "group", "lasso", "shrink"]


class Penalty(Protocol):
    """Return the magnitudes of residuals ``(..., c)`` as ``(..., 1)`` or ``(..., c)``."""

    def __call__(self, residuals: np.ndarray) -> np.ndarray:
        """Return the magnitudes."""
        ...


def group(residuals: np.ndarray) -> np.ndarray:
    """Return the 2-norm of each row: a row's entries enter the model together."""
    return np.asarray(np.sqrt(np.sum(residuals * residuals, axis=-1, keepdims=True)))


def lasso(residuals: np.ndarray) -> np.ndarray:
    """Return the absolute value of each entry: entries enter one by one."""
    return np.asarray(np.abs(residuals))


PENALTIES: dict[str, Penalty] = {"group": group, "lasso": lasso}


def shrink(residuals: np.ndarray, lam: np.ndarray, penalty: Penalty) -> np.ndarray:
    """Return the minimising mean shift for given residuals: soft thresholding at `lam`.

    Zero exactly where the magnitude is at most `lam`.
    """
    size = penalty(residuals)
    active = size > lam
    # Both branches of a `where` are computed; the inner one keeps 0 / 0 out.
    ratio = np.where(active, lam / np.where(active, size, 1.0), 1.0)
    return residuals * (1.0 - ratio)
