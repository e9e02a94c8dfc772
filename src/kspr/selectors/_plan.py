"""From features and labels to pieces: split, choose the rows to fit, reduce."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from kspr.core.arrays import Array, like, namespace, row_blocks, to_numpy
from kspr.core.halves import Census, row_coins, row_keys
from kspr.core.labels import Labels
from kspr.core.procedure import Procedure, max_directions
from kspr.core.reduction import PCA, Solver, fit_pca
from kspr.core.splitting import (
    Pieces,
    group_classes,
    make_pieces,
    part_as_piece,
    prototypes,
    similarity,
    thinned,
)
from kspr.errors import InputError
from kspr.selectors.engines.local import side_by_side
from kspr.selectors.feature_rows import DenseFeatures, Features, SparseFeatures

__all__ = [
    "Plan",
    "Reduction",
    "comparable_rows",
    "plan_part",
    "plan_pieces",
    "reduced_batch",
    "rows_to_fit",
]

_BATCH_BYTES = _FIT_BLOCK_BYTES = 16 << 20
_SCORE_BLOCK_BYTES = 4 << 20
"""Size of the blocks whose scores are put into one array: several are in work at a time."""
_SMALL_WIDTH = 1000
"""Columns of a sparse matrix up to which its covariance matrix is formed."""
_USUAL = 128
"""Components that ``"auto"`` keeps without a ridge; with one, wider features are reduced."""
_MANY, _WIDE = 512, 2560
"""Components that ``"auto"`` keeps with a ridge, and columns from which that many cost too much."""
_SCORE_BYTES = 512 << 20
"""Memory that the components of the fitted rows may take: ``"auto"`` fits as many as that holds,
and keeps fewer components where more rows are asked for."""
_ROWS_PER_DIMENSION = 100
"""Rows that are fitted for every dimension, however much memory they take."""


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
    half: np.ndarray | None  # of each sample where one piece holds all of them; else None

    @property
    def fits_a_part(self) -> bool:
        """Whether one piece holds all samples, and fewer of them are fitted."""
        fitted = sum(int(pieces.valid.sum()) for _, pieces in self.batches)
        return self.half is not None and fitted < len(self.half)


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
    fit_rows: int | Literal["auto", "all"] = "all",
    keep_copies: bool = False,
) -> Plan:
    """Split the data, and reduce it as a whole where that is the same for every piece.

    A single piece that holds all rows is fitted on `fit_rows` of them. If these are fewer than all
    rows, and no rows are to stay `together`, row after row decides by its number, or by its content
    with `keep_copies`, which half it is in and whether it is fitted: see `core/halves.py`.
    """
    n_classes = len(labels.classes)
    if classes_per_group is None or classes_per_group >= n_classes:
        groups = [np.arange(n_classes)]
    else:
        # Alg. 2, line 1: Eq. prototype and Eq. simialrity (so spelled in the paper's source).
        prototype = prototypes(features.blocks(), labels.codes, n_classes, clean)
        groups = group_classes(similarity(prototype), classes_per_group)
    whole = samples_per_class is None and len(groups) == 1
    wanted = None
    if whole and fit_rows != "all":
        wanted = rows_to_fit(fit_rows, features.shape[1], n_classes, reduction, procedure)
    projection, half = None, None
    if wanted is not None and wanted < features.shape[0] and together is None:
        piece, half = _dealt(features, labels, wanted, int(rng.integers(2**63)), keep_copies)
        pieces = [piece]
    else:
        # Alg. 2, line 2.
        pieces = make_pieces(labels.codes, groups, samples_per_class, rng, together)
        if whole:
            half = _half_of(pieces[0], len(labels.codes))
        if wanted is not None:
            pieces = [thinned(pieces[0], wanted)]
    # Drawn once for all: a batch's sketch must not depend on the order in which batches are solved.
    sketch_seed = int(rng.integers(2**32))
    if transformer is not None:
        features, reduction = _transformed(features, transformer), Reduction(None, reduction.solver)
    elif isinstance(features, SparseFeatures) and _needs_one_matrix(pieces, reduction):
        d, p = reduction.dimensions(n_classes), features.shape[1]
        features, reduction = _dense(features, d, sketch_seed), Reduction(None, reduction.solver)
        if procedure.first_step == "refit" and features.shape[1] < p:
            # As for dense features, the components keep their sizes.
            width = min(features.shape[1], max_directions(pieces[0].index.shape[2], procedure))
            chosen = _rows_of(pieces[0], features)
            projection = _components(
                features, chosen, width, reduction.solver, sketch_seed
            ).scaled()
    elif sum(part.n_pieces for part in pieces) == 1:
        # A single piece holds all rows: they are reduced in passes over blocks.
        projection = _projection(features, pieces[0], reduction, procedure, sketch_seed)
    batches = list(_batches(pieces, features.shape[1]))
    intercept = procedure.intercept
    return Plan(features, reduction, projection, batches, sketch_seed, intercept, half)


def plan_part(
    features: Features, piece: Pieces, reduction: Reduction, procedure: Procedure, seed: int
) -> Plan:
    """Return the plan for a single piece of rows that are at hand; `seed` is that of a sketch."""
    projection = _projection(features, piece, reduction, procedure, seed)
    batches = list(_batches([piece], features.shape[1]))
    return Plan(features, reduction, projection, batches, seed, procedure.intercept, None)


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


def _half_of(piece: Pieces, n_rows: int) -> np.ndarray:
    """Return the half of each row of the piece that holds all of them."""
    half = np.zeros(n_rows, dtype=np.int8)
    half[piece.index[0, 1][piece.valid[0, 1]]] = 1
    return half


def rows_to_fit(
    fit_rows: int | Literal["auto"],
    n_features: int,
    n_classes: int,
    reduction: Reduction,
    procedure: Procedure,
) -> int:
    """Return the number of rows that the only piece is fitted on, at most."""
    if fit_rows != "auto":
        return fit_rows
    d = reduction.dimensions(n_classes) or n_features
    if _keeps_many(reduction, procedure, n_features):
        d = _MANY
    width = min(d, n_features)
    return max(_SCORE_BYTES // (4 * width), _ROWS_PER_DIMENSION * width)


def _dealt(
    features: Features, labels: Labels, wanted: int, seed: int, keep_copies: bool
) -> tuple[Pieces, np.ndarray]:
    """Return the rows that are fitted as a piece, and the half of every row."""
    n, codes = len(labels.codes), labels.codes
    coin, census = np.zeros(n, dtype=np.uint8), None
    for rows, block in _numbered(features if keep_copies else None, n):
        keys = row_keys(rows.start, rows.stop - rows.start, seed)
        coins = keys if block is None else row_coins(to_numpy(block), seed)
        coin[rows] = coins & np.uint64(1)
        counted = Census.of(labels.classes, codes[rows], keys, coins)
        census = counted if census is None else census.merge(counted)
    assert census is not None  # noqa: S101 - there are rows
    deal = census.deal(wanted)
    half, chosen = np.empty(n, dtype=np.int8), []
    for rows, _ in _numbered(None, n):
        keys = row_keys(rows.start, rows.stop - rows.start, seed)
        half[rows] = deal.halves(codes[rows], keys, coin[rows])
        chosen.append(rows.start + deal.fitted(codes[rows], keys))
    fitted = np.concatenate(chosen)
    return part_as_piece(fitted, codes[fitted], half[fitted], len(labels.classes)), half


def _numbered(features: Features | None, n_rows: int) -> Iterator[tuple[slice, Array | None]]:
    """Yield slices that cover all rows, with their features if these are given."""
    if features is None:
        yield from ((rows, None) for rows in row_blocks(n_rows, 8))
        return
    start = 0
    for block in features.blocks():
        yield slice(start, start + block.shape[0]), block
        start += block.shape[0]


def _keeps_many(reduction: Reduction, procedure: Procedure, n_features: int) -> bool:
    """Return whether a ridge decides how much each component counts: no harm in many then."""
    refits = procedure.first_step == "refit"
    return reduction.components == "auto" and refits and n_features <= _WIDE


def _projection(
    features: Features, piece: Pieces, reduction: Reduction, procedure: Procedure, seed: int
) -> PCA | None:
    """Return the principal components of the piece's rows, or None if that would be all."""
    p = features.shape[1]
    d = reduction.dimensions(piece.classes.shape[1])
    if d is None or d >= p:
        return None
    chosen = _rows_of(piece, features)
    if _keeps_many(reduction, procedure, p):
        n_rows = features.shape[0] if chosen is None else len(chosen)
        d = max(d, min(_MANY, _SCORE_BYTES // (4 * n_rows)))
    # With more directions the fit would leave no residuals: see `max_directions`.
    d = min(d, max_directions(piece.index.shape[2], procedure))
    pca = _components(features, chosen, d, reduction.solver, seed)
    # A ridge needs the sizes of the components: the small ones are mostly noise.
    return pca.scaled() if procedure.first_step == "refit" else pca.whitened()


def _rows_of(piece: Pieces, features: Features) -> np.ndarray | None:
    """Return the rows of a piece, ascending; None where these are all rows."""
    rows = np.unique(piece.index[piece.valid])
    return None if len(rows) == features.shape[0] else rows


def _components(
    features: Features, rows: np.ndarray | None, d: int, solver: Solver, seed: int
) -> PCA:
    rng = np.random.default_rng(seed)

    def blocks() -> Iterator[Array]:
        return (block[None] for _, block in _gathered(features, rows))

    return fit_pca(blocks, d, solver=solver, rng=rng, each=side_by_side)


def _gathered(
    features: Features, rows: np.ndarray | None, block_bytes: int = _FIT_BLOCK_BYTES
) -> Iterator[tuple[slice, Array]]:
    """Yield the given rows in blocks, and where these stand in `rows`, which ascends.

    None for all rows. Blocks have the same sizes whatever the rows are a part of: so have the sums
    over them that a fit needs.
    """

    def parts() -> Iterator[Array]:
        start = 0
        for block in features.blocks():
            own = None if rows is None else _between(rows, start, start + len(block)) - start
            # Whole blocks are not copied. An empty slot repeats a row: a count would not tell.
            if own is None or np.array_equal(own, np.arange(len(block))):
                yield block
            else:
                yield block[like(own, block)]
            start += len(block)

    place = 0
    for block in _recut(parts(), max(256, block_bytes // (4 * max(1, features.shape[1])))):
        yield slice(place, place + len(block)), block
        place += len(block)


def _between(rows: np.ndarray, start: int, end: int) -> np.ndarray:
    """Return those of ascending `rows` that are numbered from `start` to `end`."""
    return rows[slice(*np.searchsorted(rows, [start, end]))]


def _recut(parts: Iterator[Array], step: int) -> Iterator[Array]:
    """Yield the same rows in blocks of `step`; the last one may be smaller."""
    held: list[Array] = []
    for part in parts:
        while len(part):
            room = step - sum(map(len, held))
            held.append(part[:room])
            part = part[room:]
            if sum(map(len, held)) == step:
                yield _join(iter(held))
                held = []
    if held:
        yield _join(iter(held))


def _projected(features: Features, pca: PCA, index: np.ndarray, intercept: bool) -> Array:
    """Return the conditioned features of the rows at `index`.

    Rows are walked in their own order and put where they belong, so that neither the features
    nor their scores are ever held twice.
    """
    slot = np.argsort(index, axis=None, kind="stable")
    parts = _gathered(features, index.reshape(-1)[slot], _SCORE_BLOCK_BYTES)
    first = int(intercept)
    here, block = next(parts)
    scores = pca.transform(block[None])[0]
    xp = namespace(scores)
    # With an intercept the first column stays 1.
    shape = (index.size, first + scores.shape[1])
    out = xp.ones(shape, dtype=scores.dtype, device=scores.device)
    out[like(slot[here], scores), first:] = scores

    def put_scores(part: tuple[slice, Array]) -> None:
        # Put by the thread that has them: scores that wait would take as much memory as all blocks
        # in work. No two blocks have a row in common.
        found = pca.transform(part[1][None])[0]
        out[like(slot[part[0]], found), first:] = found

    for _ in side_by_side(put_scores, parts):
        pass
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
    if len(joined) == 1:
        return joined[0]
    return namespace(joined[0]).concat(joined, axis=0)


def _sparse_scores(rows: Any, d: int, seed: int) -> np.ndarray:
    """Return principal components of a sparse matrix, which stays sparse."""
    n, p = rows.shape
    # The two solvers of scikit-learn that centre a sparse matrix without making it dense.
    solver = "covariance_eigh" if p <= _SMALL_WIDTH else "arpack"
    # arpack finds fewer components than there are rows.
    d = min(d, n, p) if p <= _SMALL_WIDTH else min(d, n - 1)
    # Imported here: a saved selection is read without scikit-learn, which takes long to load.
    from sklearn import decomposition

    pca = decomposition.PCA(n_components=d, svd_solver=solver, random_state=seed)
    return np.asarray(pca.fit_transform(rows))
