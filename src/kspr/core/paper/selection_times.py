"""Mean-shift regression: the path of gamma over lam, and the selection times on it.

The problem is ``min 1/2 |Y - X beta - gamma|^2 + P(gamma; lam)``. Eliminating gamma leaves
a Huber regression in beta, whose residuals r decide everything: row i is active exactly
when its magnitude exceeds lam. Beta is followed down the path by reweighted least squares;
its matrices are (p x p), so no array here grows faster than the data.
"""

import warnings
from collections.abc import Callable
from typing import Protocol

import numpy as np

from kspr.core.arrays import row_blocks
from kspr.core.regression import Equations, Targets, fit_basis, least_squares, normal_equations

STEPS = 16
"""Cells of the lam grid. Each holds about the same share of the rows' entries."""
_DOWNDATED = 0.75
"""Share of the rows up to which it is quicker to take off what they lose than to start anew."""
_REMAINS = 0.25
"""Share that must be left of what is taken off from: less would show its rounding errors."""


class Penalty(Protocol):
    """The magnitude that is held against the level ``lam``, one per penalised unit.

    A unit is a whole row (`group`) or a single entry (`lasso`). The shrunken mean shift, the
    weights of the Huber form and the closed form of step ii follow from it.

    Return the magnitudes of residuals ``(..., c)`` as ``(..., 1)`` or ``(..., c)``.
    """

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


def _magnitudes(Q: np.ndarray, beta: np.ndarray, targets: Targets, penalty: Penalty) -> np.ndarray:
    """Return the penalised magnitudes of the residuals: ``(pieces, rows, units)``."""
    k, c = beta.shape[1:]
    widened = k if beta.dtype != Q.dtype else 0
    parts = [
        penalty(targets.rows(rows) - Q[:, rows, :].astype(beta.dtype, copy=False) @ beta)
        for rows in row_blocks(Q.shape[1], Q.shape[0] * (c + widened))
    ]
    return np.concatenate(parts, axis=1)


def _huber_weight(size: np.ndarray, lam: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """Return the weights of one reweighting: rows beyond `lam` pull with constant force."""
    level = lam[:, None, None]
    tiny = np.finfo(size.dtype).smallest_normal
    # tiny: lam may be 0, and both branches of a `where` are computed.
    weight = np.where(size > level, level / np.maximum(size, level + tiny), 1.0)
    return np.asarray(weight * valid)


def _reweighted(
    Q: np.ndarray, targets: Targets, weight: np.ndarray, valid: np.ndarray, whole: Equations
) -> Equations:
    """Return the equations of the fit by `weight`, given those of all `valid` rows.

    Where that is quicker, the lost weight of a few rows is subtracted: in a single piece only,
    because the rows differ between the pieces of a batch.
    """
    if weight.shape[0] == weight.shape[2] == 1:
        lost = valid - weight
        if int(np.count_nonzero(lost)) <= _DOWNDATED * Q.shape[1]:
            rest = whole - normal_equations(Q, targets, lost)
            if bool(np.all(rest.size() >= _REMAINS * whole.size())):
                return rest
    return normal_equations(Q, targets, weight)


def selection_times(
    Q: np.ndarray,
    targets: Targets,
    valid: np.ndarray,
    penalty: Penalty = group,
    *,
    steps: int = STEPS,
    sweeps: int = 1,
    on_step: Callable[[], None] | None = None,
) -> np.ndarray:
    """Return ``Z_i = sup{lam : gamma_i(lam) != 0}`` for every row: ``(pieces, rows)``.

    The grid is placed so that each cell lets in about ``1 / steps`` of a piece's rows, and
    the crossing is interpolated inside its cell: times are continuous. Rows that are still
    inactive at the end of the grid, the least suspicious ones, get the time they would have
    if beta stayed where it is. The default grid is made for the order of the rows; more `steps`
    and `sweeps` bring the values themselves as close as is wanted. Invalid rows get 0.
    `on_step` is called once per grid cell.
    """
    valid_float = valid.astype(Q.dtype)
    count = np.sum(valid_float, axis=1)
    whole = normal_equations(Q, targets, valid_float[..., None])
    beta = whole.solve()
    size = _magnitudes(Q, beta, targets, penalty)
    row_size = np.max(size, axis=-1) * valid_float
    # From here up all mean shifts are 0 and beta is least squares: the path starts here.
    lam = np.max(row_size, axis=1)
    Z, active = row_size.astype(np.float64), np.zeros(valid.shape, dtype=bool)
    for step in range(1, steps):
        # Magnitudes can grow when beta moves, but the path must not turn back.
        lam_next = np.minimum(_upper_quantile(row_size, count, step / steps), lam)
        for sweep in range(sweeps):
            if sweep:
                size = _magnitudes(Q, beta, targets, penalty)
            weight = _huber_weight(size, lam_next, valid_float[..., None])
            beta = _reweighted(Q, targets, weight, valid_float[..., None], whole).solve()
        size = _magnitudes(Q, beta, targets, penalty)
        row_size_next = np.max(size, axis=-1) * valid_float
        # Eq. select is a supremum: a row that leaves the model and returns keeps its first time.
        crossing = (row_size_next > lam_next[:, None]) & ~active
        Z = np.where(crossing, _crossing(row_size, row_size_next, lam, lam_next), Z)
        active = active | crossing
        row_size, lam = row_size_next, lam_next
        if on_step is not None:
            on_step()
    # Double precision, so that near-equal rows do not tie.
    frozen = np.max(_magnitudes(Q, beta.astype(np.float64), targets, penalty), axis=-1)
    return np.asarray(np.where(active, Z, frozen * valid_float.astype(np.float64)))


def _upper_quantile(values: np.ndarray, count: np.ndarray, share: float) -> np.ndarray:
    """Return, per piece, the value that `share` of its valid rows exceed.

    Invalid rows hold 0 and sort below all others.
    """
    rank = np.floor(count * share).astype(np.int64)
    ordered = np.flip(np.sort(values, axis=1), axis=1)
    return np.take_along_axis(ordered, rank[:, None], axis=1)[:, 0]


def _crossing(
    before: np.ndarray, after: np.ndarray, lam: np.ndarray, lam_next: np.ndarray
) -> np.ndarray:
    """Return the lam at which a magnitude, linear inside the cell, meets lam."""
    # Double precision: single would make a few of many thousand times coincide.
    lam, lam_next = lam.astype(np.float64)[:, None], lam_next.astype(np.float64)[:, None]
    gap = lam - before.astype(np.float64)
    # A row that is above lam when its cell begins crosses at lam itself.
    below = np.where(gap > 0, gap, 0.0)
    total = below + after.astype(np.float64) - lam_next
    share = np.where(total > 0, below / np.where(total > 0, total, 1.0), 0.0)
    return lam - share * (lam - lam_next)


def gamma_path(
    X: np.ndarray,
    Y: np.ndarray,
    lams: np.ndarray,
    penalty: Penalty = group,
    *,
    intercept: bool = False,
    tol: float = 1e-7,
    max_sweeps: int = 20_000,
) -> np.ndarray:
    """Return the solution ``(lams, rows, c)`` of one problem at every `lam`, in their order.

    Warm starts make descending `lams` the quick way. Each level is solved until no
    coefficient's effect on a row moves by more than `tol`, as far as the precision allows.
    """
    valid = np.ones((1, X.shape[0]), dtype=bool)
    basis = fit_basis(X[None], valid, intercept, X.shape[1])
    Q, targets = basis.transform(X[None]), Targets.from_matrix(Y[None])
    weight = valid.astype(Q.dtype)[..., None]
    beta = least_squares(Q, targets, weight)
    tol = max(tol, 16 * float(np.finfo(Q.dtype).eps))
    path = []
    for lam in lams:
        level = np.array([lam], dtype=Q.dtype)
        for _ in range(max_sweeps):
            size = _magnitudes(Q, beta, targets, penalty)
            beta_next = least_squares(Q, targets, _huber_weight(size, level, weight))
            moved = float(np.max(np.abs(Q @ (beta_next - beta))))
            beta = beta_next
            if moved <= tol:
                break
        else:
            warnings.warn(
                f"The path did not settle at lam = {float(lam):g} within {max_sweeps} sweeps.",
                RuntimeWarning,
                stacklevel=2,
            )
        path.append(shrink(Y - (Q @ beta)[0], level[0], penalty))
    return np.stack(path)


def irrepresentable_values(X: np.ndarray, noisy: np.ndarray) -> np.ndarray:
    """Return the values of Condition C2 of Theorem 1, for data whose truth is known.

    These are ``|(D_S' D_S)^-1 D_S' D_j|_1`` for every clean sample j, D the design I - H.

    `noisy` marks S. Values below 1 mean that the sample is not mimicked by the noisy ones;
    infinite ones that the noisy samples are not identifiable at all (C1 fails). With H = Q Q' the
    projection on the columns of X, the design's blocks on a support S are ``I - Q_S Q_S'``, whose
    inverse is known through the (p x p) matrix ``I - Q_S' Q_S``: nothing here is n x n.
    """
    U, s, _ = np.linalg.svd(X.astype(np.float64), full_matrices=False)
    # The limit that numpy.linalg.matrix_rank takes: columns of X may be dependent.
    Q = U[:, s > s[0] * max(X.shape) * float(np.finfo(s.dtype).eps)]
    Q_S, Q_rest = Q[noisy], Q[~noisy]
    values = np.zeros(len(Q_rest))
    if not len(Q_S) or not Q.shape[1]:
        return values
    # I - Q_S' Q_S has the smallest eigenvalue of I - Q_S Q_S'; rounding error counts as 0.
    inner = np.eye(Q.shape[1]) - Q_S.T @ Q_S
    if np.linalg.eigvalsh(inner)[0] <= 1e-12:
        return values + np.inf
    # D_S' D_j is minus Q_S q_j, and inv(I - Q_S Q_S') Q_S = Q_S inv(I - Q_S' Q_S).
    mapped = np.linalg.inv(inner) @ Q_rest.T
    for rows in row_blocks(len(Q_S), len(Q_rest)):
        values = values + np.sum(np.abs(Q_S[rows] @ mapped), axis=0)
    return values
