"""From a plan to judged samples: run Alg. 1 on every piece, or fit the only piece there is."""

from collections.abc import Callable
from typing import Any

import numpy as np

from kspr.core.arrays import Array, like, row_blocks, to_numpy
from kspr.core.knockoffs import random_labels
from kspr.core.linear_fit import LinearFit
from kspr.core.procedure import Procedure, fit_halves, judge
from kspr.core.regression import Basis
from kspr.core.splitting import Pieces
from kspr.errors import InputError
from kspr.selectors._passes import Verdicts
from kspr.selectors._plan import Plan, reduced_batch
from kspr.selectors.engines.local import side_by_side

__all__ = ["collect", "fit_whole", "number_cut_groups", "solve"]


def fit_whole(plan: Plan, procedure: Procedure, tick: Callable[[], None]) -> LinearFit:
    """Fit both halves of the only piece: what every row of the data is judged by."""
    ((_, piece),) = plan.batches
    basis = None
    if plan.projection is not None:
        basis = Basis(plan.projection.mean, plan.projection.components, plan.intercept)
    return fit_halves(
        reduced_batch(plan, piece),
        piece.label,
        piece.valid,
        piece.classes.shape[1],
        procedure,
        basis=basis,
        on_step=tick,
        each=side_by_side,
    )


def collect(n_samples: int, results: list[tuple[int, Pieces, dict[str, Array]]]) -> Verdicts:
    """Return the results of all batches in the order of the samples."""
    values: dict[str, np.ndarray] = {}
    piece = np.full(n_samples, -1, dtype=np.int64)
    half = np.zeros(n_samples, dtype=np.int64)
    for first, pieces, answer in results:
        judged = pieces.judged
        # A sample is judged in one slot at most, so no entry is written twice.
        sample = pieces.index[judged]
        for name, found in answer.items():
            found = to_numpy(found)
            width = found.shape[judged.ndim :]  # scores have a column per class
            store = values.setdefault(name, np.zeros((n_samples, *width), dtype=found.dtype))
            store[sample] = found[judged]
        where = np.nonzero(judged)
        piece[sample] = first + where[0]
        half[sample] = where[1]
    return Verdicts(values, piece, half)


def number_cut_groups(
    piece: np.ndarray, half: np.ndarray, codes: np.ndarray, *, pooled: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return each sample's cut group, and the groups' (piece, half, class); -1: pooled class."""
    # Room for -1, the class of a pooled cut group, which becomes 0.
    width = 1 if pooled else int(codes.max()) + 2

    def keys_of(rows: slice) -> np.ndarray:
        column = 0 if pooled else codes[rows].astype(np.int64) + 1
        return np.asarray((piece[rows].astype(np.int64) * 2 + half[rows]) * width + column)

    # In blocks: sorting all rows would take several times their memory.
    blocks = list(row_blocks(len(codes), 8))
    keys = np.unique(np.concatenate([np.unique(keys_of(rows)) for rows in blocks]))
    cut_group = np.empty(len(codes), dtype=np.int32)
    for rows in blocks:
        cut_group[rows] = np.searchsorted(keys, keys_of(rows))
    place, shifted = np.divmod(keys, width)
    return cut_group, np.stack([place // 2, place % 2, shifted - 1], axis=1)


def solve(
    batch: tuple[int, Pieces],
    *,
    plan: Plan,
    procedure: Procedure,
    scores: Any = None,
    given: np.ndarray | None = None,
    draws: np.ndarray | None = None,
    predictions: bool = False,
) -> tuple[int, Pieces, dict[str, Any]]:
    """Judge one batch; labels are returned as codes."""
    first, pieces = batch
    n_classes = pieces.classes.shape[1]
    knockoff = None
    if given is not None:
        knockoff = _positions(pieces, given)
    elif draws is not None:
        # Draws belong to samples: a knockoff does not depend on the batch that it is drawn in.
        knockoff = random_labels(pieces.label, n_classes, draws[pieces.index])
    shown = None
    if scores is not None:
        index, columns = like(pieces.index, scores), like(pieces.classes, scores)
        # (pieces, 2, slots, classes of the piece)
        shown = scores[index[..., None], columns[:, None, None, :]]
    result = judge(
        reduced_batch(plan, pieces),
        pieces.label,
        pieces.valid,
        n_classes,
        procedure,
        scores=shown,
        knockoff=knockoff,
        conditioned=plan.projection is not None,
        predictions=predictions,
    )
    answer = {"Z": result.Z, "W": result.W}
    if predictions:
        answer["prediction"] = result.prediction
    for name in ("knockoff", "suggested"):
        position = to_numpy(getattr(result, name)).reshape(pieces.n_pieces, -1)
        # From positions in the piece's classes to codes that hold across pieces.
        code = np.take_along_axis(pieces.classes, position, axis=1)
        answer[name] = code.reshape(pieces.index.shape)
    return first, pieces, answer


def _positions(pieces: Pieces, codes: np.ndarray) -> np.ndarray:
    """Return where the given knockoff labels stand among the classes of their piece."""
    n_pieces, width = pieces.classes.shape
    # (pieces, codes): where a class stands in its piece, -1 where it is not in it.
    lookup = np.full((n_pieces, 1 + max(codes.max(), pieces.classes.max())), -1)
    np.put_along_axis(lookup, pieces.classes, np.arange(width)[None], axis=1)
    wanted = codes[pieces.index].reshape(n_pieces, -1)
    position = np.take_along_axis(lookup, wanted, axis=1).reshape(pieces.index.shape)
    outside = position < 0
    if outside.any():
        raise InputError(
            "knockoff_labels must be in the same group of classes as y, and are not in row "
            f"{pieces.index[outside][0]}. Pass classes_per_group=None."
        )
    return position
