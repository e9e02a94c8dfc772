"""Alg. 1 on a batch of pieces: fit on one half, compare on the other, for both halves."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kspr.core.arrays import FEW_PIECES, rank_within, row_blocks
from kspr.core.chances import most_confident
from kspr.core.paper.knockoffs import Statistic, asymmetric, penalised_times
from kspr.core.paper.selection_times import STEPS, Penalty, group, selection_times
from kspr.core.regression import Targets, fit_basis, least_squares

__all__ = [
    "FirstStep",
    "Judgement",
    "Procedure",
    "compare",
    "fit_half",
    "judge",
    "keep_smallest",
    "max_directions",
    "spr_times",
    "swapped",
]

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


@dataclass(frozen=True)
class Judgement:
    """The result for every slot; all arrays ``(pieces, 2, slots)``."""

    Z: np.ndarray
    Z_tilde: np.ndarray
    W: np.ndarray
    knockoff: np.ndarray  # positions in the piece's classes
    suggested: np.ndarray  # the class that fits best, the given one included
    prediction: np.ndarray | None  # (pieces, 2, slots, c), when it was asked for


def judge(
    X: np.ndarray,
    label: np.ndarray,
    valid: np.ndarray,
    n_classes: int,
    procedure: Procedure,
    *,
    scores: np.ndarray | None = None,
    knockoff: np.ndarray | None = None,
    conditioned: bool = False,
    predictions: bool = False,
) -> Judgement:
    """Run both directions of Alg. 1 on features ``(pieces, 2, slots, p)``.

    The knockoff label is the given one, or the most confident class by `scores`, or the most
    confident one by the fit on the other half. `conditioned` features are used as they are: of
    unit size, nearly uncorrelated, the intercept's ones among them. With `predictions` the fitted
    values of every class are returned too.
    """
    # flat is (halves, slots): each half is fitted like a piece of its own.
    shape, flat = label.shape, (2 * X.shape[0], X.shape[2])
    limit = max_directions(flat[1], procedure)
    # One basis for both halves: it does not depend on labels, and the coefficients of one half
    # apply to the other.
    whole = valid.reshape((X.shape[0], 2 * flat[1]))
    Q = X.reshape((*whole.shape, X.shape[3]))
    if not conditioned:
        Q = _coordinates(Q, whole, procedure, limit)
    del X  # the caller may not need it either, and it is as large as anything here
    Q = Q.reshape((*flat, Q.shape[-1]))
    labels, rows = label.reshape(flat), whole.reshape(flat)
    beta = swapped(fit_half(Q, labels, rows, n_classes=n_classes, procedure=procedure))
    given = None if knockoff is None else knockoff.reshape(flat)
    shown = None if scores is None else scores.reshape((*flat, n_classes))
    parts, fitted = [], []
    # Block by block: the predictions of all rows are held only if the caller wants them.
    for block in row_blocks(flat[1], flat[0] * n_classes):
        # Each half is judged by what the other has learned.
        prediction, own = Q[:, block, :] @ beta, labels[:, block]
        if given is not None:
            other = given[:, block]
        else:
            other = most_confident(prediction if shown is None else shown[:, block, :], own)
        parts.append(
            (*compare(prediction, own, other, procedure), other, np.argmax(prediction, axis=-1))
        )
        if predictions:
            fitted.append(prediction)
    joined = (np.concatenate(part, axis=1) for part in zip(*parts, strict=True))
    kept = np.concatenate(fitted, axis=1).reshape(*shape, n_classes) if predictions else None
    Z, Z_tilde, W, other, best = (part.reshape(shape) for part in joined)
    return Judgement(Z, Z_tilde, W, other, best, kept)


def compare(
    prediction: np.ndarray, label: np.ndarray, other: np.ndarray, procedure: Procedure
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return Z, Z~ and W of rows whose fitted values are `prediction`; `other` is the knockoff."""
    # Step ii, Eq. spr-permute in closed form, and then Eq. w of step iii.
    Z = penalised_times(prediction, label, procedure.penalty)
    Z_tilde = penalised_times(prediction, other, procedure.penalty)
    return Z, Z_tilde, procedure.statistic(Z, Z_tilde)


def spr_times(
    X: np.ndarray,
    label: np.ndarray,
    valid: np.ndarray,
    n_classes: int,
    procedure: Procedure,
    *,
    conditioned: bool = False,
    on_step: Callable[[], None] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return each row's selection time on its whole piece, and the class that fits it best.

    Features are ``(pieces, rows, p)``, `conditioned` as for `judge`. SPR does not split pieces into
    halves.
    """
    Q = X
    if not conditioned:
        Q = _coordinates(X, valid, procedure, max_directions(X.shape[1], procedure))
    del X
    targets = Targets.from_labels(label, n_classes, Q.dtype)
    Z = selection_times(
        Q, targets, valid, procedure.penalty, steps=procedure.steps, on_step=on_step
    )
    beta = _kept_fit(Q, targets, Z, label, valid, n_classes, procedure)
    best = [
        np.argmax(Q[:, block, :] @ beta, axis=-1)
        for block in row_blocks(Q.shape[1], Q.shape[0] * n_classes)
    ]
    return Z, np.concatenate(best, axis=1)


def _coordinates(X: np.ndarray, valid: np.ndarray, procedure: Procedure, limit: int) -> np.ndarray:
    """Return `X` in a well-conditioned basis of its own columns."""
    return fit_basis(X, valid, procedure.intercept, limit).transform(X)


def keep_smallest(
    Z: np.ndarray, label: np.ndarray, valid: np.ndarray, n_classes: int, ratio: float
) -> np.ndarray:
    """Mark the share `ratio` of each class, rounded up, with the smallest times."""
    pieces, rows = Z.shape
    piece = np.arange(pieces, dtype=label.dtype)[:, None]
    # Padding forms a bin of its own behind the classes, where it counts for none of them.
    bins = (piece * (n_classes + 1) + np.where(valid, label, n_classes)).reshape(-1)
    rank, sizes = rank_within(Z.reshape(-1), bins, pieces * (n_classes + 1))
    quota = np.ceil(sizes * ratio)
    return np.asarray((rank < quota[bins]).reshape(pieces, rows) & valid)


def fit_half(
    Q: np.ndarray, label: np.ndarray, valid: np.ndarray, *, n_classes: int, procedure: Procedure
) -> np.ndarray:
    """Return beta of halves ``(halves, slots, k)``: coordinates, conditioned as for `judge`."""
    if 1 < len(Q) <= FEW_PIECES:
        # Large halves alone: what a row loses on the path can be taken off there.
        alone = [slice(half, half + 1) for half in range(len(Q))]
        fits = [
            fit_half(Q[i], label[i], valid[i], n_classes=n_classes, procedure=procedure)
            for i in alone
        ]
        return np.concatenate(fits)
    targets = Targets.from_labels(label, n_classes, Q.dtype)
    if procedure.first_step == "least_squares":
        return least_squares(Q, targets, valid.astype(Q.dtype)[..., None])
    Z = selection_times(Q, targets, valid, procedure.penalty, steps=procedure.steps)
    return _kept_fit(Q, targets, Z, label, valid, n_classes, procedure)


def _kept_fit(
    Q: np.ndarray,
    targets: Targets,
    Z: np.ndarray,
    label: np.ndarray,
    valid: np.ndarray,
    n_classes: int,
    procedure: Procedure,
) -> np.ndarray:
    """Return the least-squares fit on the rows that SPR keeps."""
    keep = keep_smallest(Z, label, valid, n_classes, procedure.clean_ratio)
    return least_squares(Q, targets, keep.astype(Q.dtype)[..., None])


def max_directions(rows: int, procedure: Procedure) -> int:
    """Return the largest number of directions: half as many as kept rows.

    With as many directions as rows, the fit would be perfect and leave no residuals.
    """
    return max(1, int(rows * procedure.clean_ratio) // 2 - procedure.intercept)


def swapped(values: np.ndarray) -> np.ndarray:
    """Return values with the two halves of every piece exchanged, along the first axis."""
    paired = values.reshape((-1, 2, *values.shape[1:]))
    return np.flip(paired, axis=1).reshape(values.shape)
