"""Alg. 1 on a batch of pieces: fit on one half, compare on the other, for both halves."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kspr.core.arrays import FEW_PIECES, rank_within, row_blocks
from kspr.core.paper.knockoffs import Statistic, asymmetric, penalised_times
from kspr.core.paper.selection_times import STEPS, Penalty, group, selection_times
from kspr.core.regression import Targets, fit_basis, least_squares, most_confident

FirstStep = Literal["spr", "least_squares"]


@dataclass(frozen=True)
class Procedure:
    """The choices of the method that concern a single piece."""

    penalty: Penalty = group
    intercept: bool = False
    first_step: FirstStep = "spr"
    clean_ratio: float = 0.5
    statistic: Statistic = asymmetric
    steps: int = STEPS
    sweeps: int = 1
    all_columns: bool = False
    """Regress on every column, as the paper without PCA, however few rows there are. Otherwise at
    most half as many directions as kept rows are used, so that residuals are left."""


@dataclass(frozen=True)
class Judgement:
    """The result for every slot; all arrays ``(pieces, 2, slots)``."""

    Z: np.ndarray
    Z_tilde: np.ndarray
    W: np.ndarray
    knockoff: np.ndarray  # positions in the piece's classes
    suggested: np.ndarray  # the class that fits best, the given one included


def judge(
    X: np.ndarray,
    label: np.ndarray,
    valid: np.ndarray,
    n_classes: int,
    procedure: Procedure,
    *,
    scores: np.ndarray | None = None,
    knockoff: np.ndarray | None = None,
) -> Judgement:
    """Run both directions of Alg. 1 on features ``(pieces, 2, slots, p)``.

    The knockoff label is the given one, or the most confident class by `scores`, or the most
    confident one by the fit on the other half.
    """
    # flat is (halves, slots): each half is fitted like a piece of its own.
    shape, flat = label.shape, (2 * X.shape[0], X.shape[2])
    literal = _is_underdetermined(flat[1], X.shape[3], procedure)
    # One basis for both halves: it does not depend on labels, and the coefficients of one half
    # apply to the other.
    whole = valid.reshape((X.shape[0], 2 * flat[1]))
    Q = _coordinates(X.reshape((*whole.shape, X.shape[3])), whole, procedure, flat[1], literal)
    del X  # the caller may not need it either, and it is as large as anything here
    Q = Q.reshape((*flat, Q.shape[-1]))
    labels, rows = label.reshape(flat), whole.reshape(flat)
    beta = _swapped(_fit_halves(Q, labels, rows, n_classes, procedure, literal))
    given = None if knockoff is None else knockoff.reshape(flat)
    shown = None if scores is None else scores.reshape((*flat, n_classes))
    parts = []
    # Block by block: the predictions of all rows are never held at once.
    for block in row_blocks(flat[1], flat[0] * n_classes):
        # Each half is judged by what the other has learned.
        prediction, label = Q[:, block, :] @ beta, labels[:, block]
        if given is not None:
            other = given[:, block]
        else:
            other = most_confident(prediction if shown is None else shown[:, block, :], label)
        # Step ii, Eq. spr-permute in closed form, and then Eq. w of step iii.
        Z, Z_tilde = (
            penalised_times(prediction, labels, procedure.penalty) for labels in (label, other)
        )
        W = procedure.statistic(Z, Z_tilde)
        parts.append((Z, Z_tilde, W, other, np.argmax(prediction, axis=-1)))
    joined = (np.concatenate(part, axis=1) for part in zip(*parts, strict=True))
    return Judgement(*(part.reshape(shape) for part in joined))


def spr_times(
    X: np.ndarray,
    label: np.ndarray,
    valid: np.ndarray,
    n_classes: int,
    procedure: Procedure,
    *,
    on_step: Callable[[], None] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return each row's selection time on its whole piece, and the class that fits it best.

    Features are ``(pieces, rows, p)``. SPR does not split pieces into halves.
    """
    literal = _is_underdetermined(X.shape[1], X.shape[2], procedure)
    Q = _coordinates(X, valid, procedure, X.shape[1], literal)
    del X
    targets = Targets.from_labels(label, n_classes, Q.dtype)
    Z = _path_times(Q, targets, valid, procedure, literal, on_step)
    keep = keep_smallest(Z, valid, procedure.clean_ratio)
    beta = _fit(Q, targets, keep, literal)
    best = [
        np.argmax(Q[:, block, :] @ beta, axis=-1)
        for block in row_blocks(Q.shape[1], Q.shape[0] * n_classes)
    ]
    return Z, np.concatenate(best, axis=1)


def keep_smallest(Z: np.ndarray, valid: np.ndarray, ratio: float) -> np.ndarray:
    """Mark the share `ratio` of each piece, rounded up, with the smallest times.

    The paper keeps "50% of the data", whatever their classes.
    """
    pieces, rows = Z.shape
    # Padding forms a bin of its own behind each piece, where it counts for none.
    bins = (2 * np.arange(pieces)[:, None] + ~valid).reshape(-1)
    rank, sizes = rank_within(Z.reshape(-1), bins, 2 * pieces)
    quota = np.ceil(sizes * ratio)
    return np.asarray((rank < quota[bins]).reshape(pieces, rows) & valid)


def _fit_halves(
    Q: np.ndarray,
    label: np.ndarray,
    valid: np.ndarray,
    n_classes: int,
    procedure: Procedure,
    literal: bool,
) -> np.ndarray:
    """Return beta of halves ``(halves, slots, k)``: step i of Alg. 1."""
    if 1 < len(Q) <= FEW_PIECES:
        # Large halves alone: what a row loses on the path can be taken off there.
        alone = [slice(half, half + 1) for half in range(len(Q))]
        fits = [_fit_halves(Q[i], label[i], valid[i], n_classes, procedure, literal) for i in alone]
        return np.concatenate(fits)
    targets, keep = Targets.from_labels(label, n_classes, Q.dtype), valid
    if procedure.first_step == "spr":
        Z = _path_times(Q, targets, valid, procedure, literal)
        keep = keep_smallest(Z, valid, procedure.clean_ratio)
    return _fit(Q, targets, keep, literal)


def _is_underdetermined(rows: int, columns: int, procedure: Procedure) -> bool:
    """Return whether all columns are wanted, and are as many as the rows of the last fit."""
    columns += procedure.intercept
    return procedure.all_columns and int(rows * procedure.clean_ratio) <= columns


def _coordinates(
    X: np.ndarray, valid: np.ndarray, procedure: Procedure, rows: int, literal: bool
) -> np.ndarray:
    """Return `X` in a well-conditioned basis of its columns, for fits to `rows` rows.

    With as many directions as rows a fit is perfect and leaves no residuals: half as many as kept
    rows are used. A `literal` fit takes the columns as they are, since the pseudo-inverse depends
    on the basis.
    """
    if literal:
        ones = np.ones((*X.shape[:2], int(procedure.intercept)))
        return np.concatenate([ones, X.astype(np.float64)], axis=-1)
    most = max(1, int(rows * procedure.clean_ratio) // 2 - procedure.intercept)
    limit = X.shape[-1] if procedure.all_columns else most
    return fit_basis(X, valid, procedure.intercept, limit).transform(X)


def _path_times(
    Q: np.ndarray,
    targets: Targets,
    valid: np.ndarray,
    procedure: Procedure,
    literal: bool,
    on_step: Callable[[], None] | None = None,
) -> np.ndarray:
    """Return the selection times of SPR; with `literal` columns, by a basis of their own.

    Where there are as many independent columns as rows, ``I - X X^+`` is 0 and no mean shift ever
    enters: all times are 0, and the rows tie.
    """
    tied = np.zeros((len(Q), 1), dtype=bool)
    if literal:
        U, size, _ = np.linalg.svd(Q * valid[..., None], full_matrices=False)
        # NumPy's rule for the rank of a matrix.
        shown = size > size[:, :1] * max(Q.shape[1:]) * np.finfo(size.dtype).eps
        tied = (shown.sum(axis=1) >= valid.sum(axis=1))[:, None]
        if tied.all():
            return np.zeros(valid.shape)
        Q = U * shown[:, None] * np.sqrt(Q.shape[1])
    Z = selection_times(
        Q,
        targets,
        valid,
        procedure.penalty,
        steps=procedure.steps,
        sweeps=procedure.sweeps,
        on_step=on_step,
    )
    return np.where(tied, 0.0, Z)


def _fit(Q: np.ndarray, targets: Targets, keep: np.ndarray, literal: bool) -> np.ndarray:
    """Return the least-squares fit on the rows in `keep`: of least norm if it is `literal`."""
    weight = keep.astype(Q.dtype)[..., None]
    if literal:
        return np.asarray(np.linalg.pinv(Q * weight) @ (targets.rows(slice(None)) * weight))
    return least_squares(Q, targets, weight)


def _swapped(values: np.ndarray) -> np.ndarray:
    """Return values with the two halves of every piece exchanged, along the first axis."""
    paired = values.reshape((-1, 2, *values.shape[1:]))
    return np.flip(paired, axis=1).reshape(values.shape)
