"""One batch of pieces, judged: the unit of work that engines hand out."""

from typing import Any

import numpy as np

from kspr.core._arrays import like, to_numpy
from kspr.core.knockoffs import random_labels
from kspr.core.procedure import Procedure, judge
from kspr.core.splitting import Pieces
from kspr.errors import InputError
from kspr.selectors._engines import side_by_side
from kspr.selectors._pieces import Plan, reduced_batch

__all__ = ["solve"]


def solve(
    batch: tuple[int, Pieces],
    *,
    plan: Plan,
    procedure: Procedure,
    scores: Any,
    given: np.ndarray | None,
    draws: np.ndarray | None,
    tick: Any,
    predictions: bool,
) -> tuple[int, Pieces, dict[str, Any]]:
    """Judge one batch; labels come back as codes."""
    first, pieces = batch
    n_classes = pieces.classes.shape[1]
    knockoff = None
    if given is not None:
        knockoff = _positions(pieces, given)
    elif draws is not None:
        knockoff = random_labels(pieces.label, n_classes, draws[pieces.index])
    shown = None
    if scores is not None:
        index, columns = like(pieces.index, scores), like(pieces.classes, scores)
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
        on_step=tick,
        each=map if tick is None else side_by_side,  # only a lone batch ticks, and has all cores
        predictions=predictions,
    )
    answer = {"Z": result.Z, "W": result.W}
    if predictions:
        answer["prediction"] = result.prediction
    for name in ("knockoff", "suggested"):
        position = to_numpy(getattr(result, name)).reshape(pieces.n_pieces, -1)
        code = np.take_along_axis(pieces.classes, position, axis=1)
        answer[name] = code.reshape(pieces.index.shape)
    return first, pieces, answer


def _positions(pieces: Pieces, codes: np.ndarray) -> np.ndarray:
    """Return where the given knockoff labels stand among the classes of their piece."""
    n_pieces, width = pieces.classes.shape
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
