"""From features and labels to judged samples: split, reduce, run Alg. 1 on every piece."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import decomposition

from kspr.core.arrays import Array, like, namespace, to_numpy
from kspr.core.knockoffs import random_labels
from kspr.core.labels import Labels
from kspr.core.procedure import Procedure, judge, max_directions
from kspr.core.reduction import PCA, Solver, fit_pca
from kspr.core.splitting import Pieces, group_classes, make_pieces, prototypes, similarity
from kspr.errors import InputError
from kspr.selectors.engines.local import side_by_side
from kspr.selectors.feature_rows import DenseFeatures, Features, SparseFeatures

__all__ = [
    "Plan",
    "Reduction",
    "Verdicts",
    "averaged",
    "collect",
    "comparable_rows",
    "number_cut_groups",
    "plan_pieces",
    "reduced_batch",
    "solve",
]

_BATCH_BYTES = 16 << 20
_SMALL_WIDTH = 1000
"""Columns of a sparse matrix up to which its covariance matrix is formed."""
_USUAL = 128
"""Components that ``"auto"`` keeps without a ridge; with one, wider features are reduced."""
_MANY, _WIDE = 512, 2560
"""Components that ``"auto"`` keeps with a ridge, and columns from which that many cost too much."""
_SCORE_BYTES = 512 << 20
"""Memory that the components of all rows may take before ``"auto"`` keeps fewer of them."""


@dataclass(frozen=True)
class Reduction:
    """How many principal components a piece keeps.

    A number, ``"classes"`` for one per class, None for all features, or ``"auto"``.
    """

    components: int | str | None
    solver: Solver

    def dimensions(self, n_classes: int) -> int | None:
        """Return the dimension for a piece of `n_classes`, or None to leave features alone."""
        if self.components == "classes":
            return n_classes
        if self.components == "auto":
            return _USUAL
        return None if self.components is None else int(self.components)


@dataclass(frozen=True)
class Plan:
    """The batches of pieces to be solved, and the features that they index."""

    features: Features
    reduction: Reduction  # what remains to be done inside each piece
    projection: PCA | None  # of the only piece, to conditioned features
    batches: list[tuple[int, Pieces]]  # with the number of the batch's first piece
    seed: int
    intercept: bool


@dataclass(frozen=True)
class Verdicts:
    """One entry per judged sample, in the order of the samples."""

    values: dict[str, np.ndarray]
    piece: np.ndarray
    half: np.ndarray


def plan_pieces(
    features: Features,
    labels: Labels,
    *,
    reduction: Reduction,
    transformer: Any,
    classes_per_group: int | None,
    samples_per_class: int | None,
    clean: np.ndarray | None,
    procedure: Procedure,
    rng: np.random.Generator,
    together: np.ndarray | None = None,
) -> Plan:
    """Split the data, and reduce it as a whole where that is the same for every piece."""
    n_classes = len(labels.classes)
    if classes_per_group is None or classes_per_group >= n_classes:
        groups = [np.arange(n_classes)]
    else:
        # Alg. 2, line 1: Eq. prototype and Eq. simialrity (so spelled in the paper's source).
        prototype = prototypes(features.blocks(), labels.codes, n_classes, clean)
        groups = group_classes(similarity(prototype), classes_per_group)
    # Alg. 2, line 2.
    pieces = make_pieces(labels.codes, groups, samples_per_class, rng, together)
    # Drawn once for all: a batch's sketch must not depend on the order in which batches are solved.
    sketch_seed = int(rng.integers(2**32))
    projection = None
    if transformer is not None:
        features, reduction = _transformed(features, transformer), Reduction(None, reduction.solver)
    elif isinstance(features, SparseFeatures) and _needs_one_matrix(pieces, reduction):
        d, p = reduction.dimensions(n_classes), features.shape[1]
        features, reduction = _dense(features, d, sketch_seed), Reduction(None, reduction.solver)
        if procedure.first_step == "refit" and features.shape[1] < p:
            # As for dense features, the components keep their sizes.
            width = min(features.shape[1], max_directions(pieces[0].index.shape[2], procedure))
            projection = _components(features, width, reduction.solver, sketch_seed).scaled()
    elif sum(part.n_pieces for part in pieces) == 1:
        # A single piece holds all rows: they are reduced in passes over blocks.
        limit = max_directions(pieces[0].index.shape[2], procedure)
        projection = _projection(features, reduction, n_classes, procedure, limit, sketch_seed)
    batches = list(_batches(pieces, features.shape[1]))
    intercept = procedure.intercept
    return Plan(features, reduction, projection, batches, sketch_seed, intercept)


def reduced_batch(plan: Plan, pieces: Pieces) -> Array:
    """Return the features of a batch: ``(pieces, 2, slots, d)``."""
    if plan.projection is not None:
        return _projected(plan.features, plan.projection, pieces.index, plan.intercept)
    d = plan.reduction.dimensions(pieces.classes.shape[1])
    n_pieces, _, slots = pieces.index.shape
    if d is None or d >= plan.features.shape[1]:
        return plan.features.take(pieces.index)
    if isinstance(plan.features, SparseFeatures):
        rows = plan.features.matrix
        parts = [_sparse_scores(rows[index.reshape(-1)], d, plan.seed) for index in pieces.index]
        return np.stack(parts).reshape(n_pieces, 2, slots, -1)
    X = plan.features.take(pieces.index.reshape(n_pieces, 2 * slots))
    # A new generator for every batch, so that workers share no state.
    rng = np.random.default_rng(plan.seed)
    scores = fit_pca(lambda: [X], d, solver=plan.reduction.solver, rng=rng).transform(X)
    return scores.reshape(n_pieces, 2, slots, d)


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


def averaged(splits: Iterator[Verdicts]) -> Verdicts:
    """Return the first verdicts with the mean of the fitted values over all splits.

    No fit that judges a sample has seen its label, so their mean has not either.
    """
    first = next(splits)
    for number, other in enumerate(splits, start=2):
        # A running mean: no more than two splits are held at a time.
        mean = first.values["prediction"]
        mean += (other.values["prediction"] - mean) / number
    return first


def comparable_rows(plan: Plan, width: int) -> np.ndarray:
    """Return all rows in at most `width` principal components, or as they are without any."""
    parts = []
    for block in plan.features.blocks():
        if plan.projection is not None:
            block = plan.projection.transform(block[None])[0][:, :width]
        parts.append(to_numpy(block))
    return np.concatenate(parts)


def _batches(parts: list[Pieces], n_features: int) -> Iterator[tuple[int, Pieces]]:
    """Cut pieces into batches that fit in little memory, however many workers there are."""
    first = 0
    for part in parts:
        rows = part.index.shape[1] * part.index.shape[2]
        # 4 bytes a number, as in single precision; batches of doubles are twice as large.
        step = max(1, _BATCH_BYTES // (4 * rows * max(1, n_features)))
        for start in range(0, part.n_pieces, step):
            batch = part[start : start + step]
            yield first, batch
            first += batch.n_pieces


def _needs_one_matrix(pieces: list[Pieces], reduction: Reduction) -> bool:
    """Return whether sparse features are reduced as a whole rather than piece by piece."""
    return reduction.components is None or sum(part.n_pieces for part in pieces) == 1


def _dense(features: SparseFeatures, d: int | None, seed: int) -> Features:
    """Return all rows of a sparse matrix in `d` principal components."""
    if d is None:
        raise InputError(
            "reduction=None would make the sparse X dense. Pass a number of components, such "
            "as reduction=64, or a fitted transformer."
        )
    return DenseFeatures(_sparse_scores(features.matrix, d, seed))


def _projection(
    features: Features,
    reduction: Reduction,
    n_classes: int,
    procedure: Procedure,
    limit: int,
    seed: int,
) -> PCA | None:
    """Return the principal components of all rows, or None if that would be all there are."""
    p = features.shape[1]
    d = reduction.dimensions(n_classes)
    if d is None or d >= p:
        return None
    refits = procedure.first_step == "refit"
    if reduction.components == "auto" and refits and p <= _WIDE:
        # The ridge decides how much each component counts, so that there is no harm in many.
        d = max(d, min(_MANY, _SCORE_BYTES // (4 * features.shape[0])))
    # With more directions the fit would leave no residuals: see `max_directions`.
    pca = _components(features, min(d, limit), reduction.solver, seed)
    # A ridge needs the sizes of the components: the small ones are mostly noise.
    return pca.scaled() if refits else pca.whitened()


def _components(features: Features, d: int, solver: Solver, seed: int) -> PCA:
    rng = np.random.default_rng(seed)
    return fit_pca(lambda: (b[None] for b in features.blocks()), d, solver=solver, rng=rng)


def _projected(features: Features, pca: PCA, index: np.ndarray, intercept: bool) -> Array:
    """Return the conditioned features of the rows at `index`.

    Rows are walked in their own order and put where they belong, so that neither the features
    nor their scores are ever held twice.
    """
    slot = np.argsort(index, axis=None, kind="stable")
    sample = index.reshape(-1)[slot]
    out: Array = None
    start, first = 0, int(intercept)
    for block in features.blocks():
        scores = pca.transform(block[None])[0]
        if out is None:
            xp = namespace(scores)
            shape = (index.size, first + scores.shape[1])
            # With an intercept the first column stays 1.
            out = xp.ones(shape, dtype=scores.dtype, device=scores.device)
        # `sample` is sorted: the slots of this block's rows are neighbours.
        here = slice(*np.searchsorted(sample, [start, start + len(scores)]))
        out[like(slot[here], scores), first:] = scores[like(sample[here] - start, scores)]
        start += len(scores)
    return out.reshape(*index.shape, -1)


def _transformed(features: Features, transformer: Any) -> Features:
    """Return all rows as the user's fitted transformer sees them, a block at a time."""
    if isinstance(features, SparseFeatures):
        # As one sparse matrix: dense blocks are what such transformers are there to avoid.
        return DenseFeatures(np.asarray(transformer.transform(features.matrix)))
    return DenseFeatures(
        _join(np.asarray(transformer.transform(to_numpy(block))) for block in features.blocks())
    )


def _join(parts: Iterator[Array]) -> Array:
    joined = list(parts)
    return namespace(joined[0]).concat(joined, axis=0)


def _sparse_scores(rows: Any, d: int, seed: int) -> np.ndarray:
    """Return principal components of a sparse matrix, which stays sparse."""
    n, p = rows.shape
    # The two solvers of scikit-learn that centre a sparse matrix without making it dense.
    solver = "covariance_eigh" if p <= _SMALL_WIDTH else "arpack"
    # arpack finds fewer components than there are rows.
    d = min(d, n, p) if p <= _SMALL_WIDTH else min(d, n - 1)
    pca = decomposition.PCA(n_components=d, svd_solver=solver, random_state=seed)
    return np.asarray(pca.fit_transform(rows))


def number_cut_groups(
    piece: np.ndarray, half: np.ndarray, codes: np.ndarray, *, pooled: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return each sample's cut group, and the groups' (piece, half, class); -1: pooled class."""
    column = np.full_like(codes, -1) if pooled else codes
    # Room for -1, the class of a pooled cut group, which becomes 0.
    width = int(column.max()) + 2
    key = (piece * 2 + half) * width + column + 1
    keys, cut_group = np.unique(key, return_inverse=True)
    place, shifted = np.divmod(keys, width)
    return cut_group, np.stack([place // 2, place % 2, shifted - 1], axis=1)


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
        on_step=tick,
        each=map if tick is None else side_by_side,  # only a lone batch ticks, and has all cores
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
