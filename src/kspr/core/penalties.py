"""Penalties on the mean shifts.

A penalty is one function: the magnitude that is held against the level ``lam``, one per
penalised unit. A unit is a whole row (`group`) or a single entry (`lasso`). Everything
else follows from it: the shrunken mean shift, the weights of the Huber form, and the
closed form of step ii.
"""

from typing import Protocol

from kspr.core.arrays import Array, namespace

__all__ = ["PENALTIES", "Penalty", "group", "lasso", "shrink"]


class Penalty(Protocol):
    """Return the magnitudes of residuals ``(..., c)`` as ``(..., 1)`` or ``(..., c)``."""

    def __call__(self, residuals: Array) -> Array:
        """Return the magnitudes."""
        ...


def group(residuals: Array) -> Array:
    """Return the 2-norm of each row: a row's entries enter the model together."""
    xp = namespace(residuals)
    return xp.sqrt(xp.sum(residuals * residuals, axis=-1, keepdims=True))


def lasso(residuals: Array) -> Array:
    """Return the absolute value of each entry: entries enter one by one."""
    return namespace(residuals).abs(residuals)


PENALTIES: dict[str, Penalty] = {"group": group, "lasso": lasso}


def shrink(residuals: Array, lam: Array, penalty: Penalty) -> Array:
    """Return the minimising mean shift for given residuals: soft thresholding at `lam`.

    Zero exactly where the magnitude is at most `lam`.
    """
    xp = namespace(residuals)
    size = penalty(residuals)
    active = size > lam
    # Both branches of a `where` are computed; the inner one keeps 0 / 0 out.
    ratio = xp.where(active, lam / xp.where(active, size, 1.0), 1.0)
    return residuals * (1.0 - ratio)
