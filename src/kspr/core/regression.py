"""Mean-shift regression: the path of gamma over lam, and the selection times on it.

The problem is ``min 1/2 |Y - X beta - gamma|^2 + P(gamma; lam)``. Eliminating gamma leaves
a Huber regression in beta, whose residuals r decide everything: row i is active exactly
when its magnitude exceeds lam. Beta is followed down the path by reweighted least squares;
its matrices are (p x p), so no array here grows faster than the data.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from kspr.core.arrays import Array, double, gram_of, in_order, namespace, one_hot, row_blocks
from kspr.core.penalties import Penalty, group, shrink

__all__ = [
    "Basis",
    "Equations",
    "Targets",
    "WeightedBlocks",
    "basis_from",
    "column_products",
    "column_sums",
    "fit_basis",
    "gamma_path",
    "least_squares",
    "normal_equations",
    "selection_times",
]

_SMALL_TARGETS = 1 << 22
"""Numbers in a matrix of targets that may be held as a whole."""
STEPS = 16
"""Cells of the lam grid. Each holds about the same share of the rows' entries."""
_FEW_COLUMNS = 256
"""Up to here targets are multiplied as a matrix; more columns of one-hot rows are mostly zeros."""
_DOWNDATED = 0.75
"""Share of the rows up to which it is quicker to take off what they lose than to start anew."""
_REMAINS = 0.25
"""Share that must be left of what is taken off from: less would show its rounding errors."""


@dataclass(frozen=True)
class Basis:
    """Well-conditioned directions that span the columns of X, and maybe an intercept.

    Least squares does not care which basis of the column space it is given; arithmetic in
    single precision does. Dependent, constant and wildly scaled columns end here.
    """

    mean: Array  # (pieces, 1, p)
    directions: Array  # (pieces, p, k)
    intercept: bool

    def transform(self, X: Array) -> Array:
        """Return the coordinates of the rows of `X`: ``(pieces, rows, k)``."""
        xp = namespace(X)
        pieces, n, p = X.shape
        first = int(self.intercept)
        width = first + self.directions.shape[2]
        # With an intercept the first column stays 1.
        Q = xp.ones((pieces, n, width), dtype=X.dtype, device=X.device)
        for rows in row_blocks(n, pieces * p):
            Q[:, rows, first:] = (X[:, rows, :] - self.mean) @ self.directions
        return Q


def fit_basis(X: Array, valid: Array, intercept: bool, max_directions: int) -> Basis:
    """Return a basis of the columns of `X` over the rows that are `valid`.

    Directions that carry no more than rounding error become zero columns, so that every
    piece of a batch keeps one shape. At most `max_directions` are kept: the leading ones of the
    columns scaled to one size, because the columns' own scales may mean nothing.
    """
    xp = namespace(X)
    pieces, n, p = X.shape
    weight = xp.astype(valid, X.dtype)[..., None]

    def blocks() -> WeightedBlocks:
        return ((X[:, rows, :], weight[:, rows, :]) for rows in row_blocks(n, pieces * p))

    total = xp.sum(double(weight), axis=1, keepdims=True)
    total = xp.where(total > 0, total, 1.0)  # a half may be empty
    mean = xp.zeros((pieces, 1, p), dtype=X.dtype, device=X.device)
    if intercept:
        mean = xp.astype(in_order(column_sums(blocks())) / total, X.dtype)
    gram = in_order(column_products(blocks(), mean))
    return basis_from(gram, mean, total, intercept, max_directions)


WeightedBlocks = Iterable[tuple[Array, Array]]
"""Rows ``(pieces, rows, p)`` with their weights ``(pieces, rows, 1)``."""


def column_sums(blocks: WeightedBlocks) -> Iterator[Array]:
    """Yield the sums of the columns, block by block, in double precision."""
    for X, weight in blocks:
        yield namespace(X).sum(double(X * weight), axis=1, keepdims=True)


def column_products(blocks: WeightedBlocks, mean: Array) -> Iterator[Array]:
    """Yield the products of the centred columns, block by block.

    In double precision: their sum has the squared condition number of the columns.
    """
    for X, weight in blocks:
        block = double((X - mean) * weight)
        yield namespace(X).matrix_transpose(block) @ block


def basis_from(
    gram: Array, mean: Array, total: Array, intercept: bool, max_directions: int
) -> Basis:
    """Return the basis, given the products of its centred columns over `total` rows."""
    xp = namespace(gram)
    size = xp.sqrt(xp.linalg.diagonal(gram))
    scale = xp.where(size > 0, 1.0 / xp.where(size > 0, size, 1.0), 0.0)
    values, vectors = xp.linalg.eigh(gram * scale[:, :, None] * scale[:, None, :])
    k = min(gram.shape[-1], max_directions)
    # eigh sorts ascending: the leading directions are the last.
    values, vectors = values[:, -k:], vectors[:, :, -k:]
    floor = 1e-8 if mean.dtype == xp.float32 else 1e-13
    kept = values > floor * xp.maximum(values[:, -1:], xp.full_like(values[:, -1:], 1e-300))
    # Unit mean square, the size of the intercept's column of ones.
    spread = xp.where(kept, xp.sqrt(total[:, :, 0] / xp.where(kept, values, 1.0)), 0.0)
    directions = scale[:, :, None] * vectors * spread[:, None, :]
    return Basis(mean, xp.astype(directions, mean.dtype), intercept)


@dataclass(frozen=True)
class Targets:
    """The rows to be explained: given as a matrix, or as labels that stand for one-hot rows."""

    n_columns: int
    rows: Callable[[slice], Array]
    labels: Array | None = None  # (pieces, rows), if the rows are one-hot

    @classmethod
    def from_labels(cls, labels: Array, n_classes: int, dtype: object) -> "Targets":
        """Return one-hot targets: built once where they are small, else block by block."""
        if labels.shape[0] * labels.shape[1] * n_classes <= _SMALL_TARGETS:
            Y = one_hot(labels, n_classes, dtype)
            return cls(n_classes, lambda rows: Y[:, rows, :], labels)
        return cls(n_classes, lambda rows: one_hot(labels[:, rows], n_classes, dtype), labels)

    @classmethod
    def from_matrix(cls, Y: Array) -> "Targets":
        """Return targets that stand in a matrix ``(pieces, rows, columns)``."""
        return cls(Y.shape[-1], lambda rows: Y[:, rows, :])


@dataclass(frozen=True)
class Equations:
    """The normal equations of a weighted fit."""

    gram: Array  # (pieces, units, k, k)
    moment: Array  # (pieces, k, c)

    def __add__(self, other: "Equations") -> "Equations":
        return Equations(self.gram + other.gram, self.moment + other.moment)

    def __sub__(self, other: "Equations") -> "Equations":
        return Equations(self.gram - other.gram, self.moment - other.moment)

    def size(self) -> Array:
        """Return the sum of the weighted squares that went in, per piece."""
        xp = namespace(self.gram)
        return xp.sum(xp.linalg.diagonal(self.gram), axis=(1, 2))

    def solve(self, ridge: Array | float = 0.0) -> Array:
        """Return the coefficients ``(pieces, k, c)``; `ridge` is added to the squares."""
        xp = namespace(self.gram)
        gram = self.gram + _jitter(self.gram) + ridge
        # One matrix for all classes under `group`; `lasso` has weights per class.
        if gram.shape[1] == 1:
            return xp.linalg.solve(gram[:, 0], self.moment)
        columns = xp.matrix_transpose(self.moment)[..., None]
        return xp.matrix_transpose(xp.linalg.solve(gram, columns)[..., 0])

    def freedom(self, ridge: Array | float = 0.0) -> Array:
        """Return the degrees of freedom of the fit, per piece: the sum of its rows' leverages."""
        xp = namespace(self.gram)
        gram = self.gram[:, 0]
        hat = xp.linalg.solve(gram + _jitter(gram) + ridge, gram)
        return xp.sum(xp.linalg.diagonal(hat), axis=-1)


def least_squares(Q: Array, targets: Targets, weight: Array) -> Array:
    """Return the coefficients ``(pieces, k, c)`` of the weighted fit.

    `weight` has one column for weights that all targets share, or one per target.
    """
    return normal_equations(Q, targets, weight).solve()


def normal_equations(Q: Array, targets: Targets, weight: Array) -> Equations:
    """Return the equations of the fit in which each row has a `weight`."""
    xp = namespace(Q)
    pieces, _, k = Q.shape
    units, c = weight.shape[-1], targets.n_columns
    labels = targets.labels if c > _FEW_COLUMNS and pieces == units == 1 else None
    if labels is not None and not isinstance(labels, np.ndarray):
        labels = None
    gram = xp.zeros((pieces, units, k, k), dtype=Q.dtype, device=Q.device)
    moment = xp.zeros((pieces, k, c), dtype=Q.dtype, device=Q.device)
    for rows in _weighted_rows(weight, pieces * (units * k + (c if labels is None else 0))):
        q, w = Q[:, rows, :], weight[:, rows, :]
        if units == 1:
            # The root of the weight on both sides: `gram_of` can then use the symmetry.
            root = xp.sqrt(w)
            weighted = q * root
            gram = gram + gram_of(weighted)[:, None]
            if labels is not None:
                _add_by_label(moment[0], weighted[0], labels[0, rows], root[0, :, 0])
                continue
            moment = moment + xp.matrix_transpose(weighted) @ (root * targets.rows(rows))
        else:
            weighted = q[:, None] * xp.matrix_transpose(w)[..., None]
            gram = gram + xp.matrix_transpose(weighted) @ q[:, None]
            moment = moment + xp.matrix_transpose(q) @ (w * targets.rows(rows))
    return Equations(gram, moment)


def _add_by_label(
    moment: np.ndarray, weighted: np.ndarray, label: np.ndarray, root: np.ndarray
) -> None:
    """Add the product with one-hot rows: sums by label, which need no matrix of them."""
    n, c = len(label), moment.shape[1]
    sums = csr_array((root, (label, np.arange(n))), shape=(c, n)) @ weighted
    moment += sums.T


def _weighted_rows(weight: Array, floats_per_row: int) -> Iterator[slice | Array]:
    """Yield the rows to walk, in blocks: of a single piece, those that have a weight."""
    n = weight.shape[1]
    if weight.shape[0] == 1 and weight.shape[2] == 1:
        (rows,) = namespace(weight).nonzero(weight[0, :, 0])
        # Gathered rows are copies, slices are views: gather only if that leaves rows out.
        if rows.shape[0] < n:
            yield from (rows[block] for block in row_blocks(rows.shape[0], floats_per_row))
            return
    yield from row_blocks(n, floats_per_row)


def _jitter(gram: Array) -> Array:
    """Return a diagonal that settles directions which the weighted rows do not show.

    Well above rounding error, or such a direction's coefficient would be rounding error divided
    by rounding error; well below anything that the visible directions could feel.
    """
    xp = namespace(gram)
    k = gram.shape[-1]
    size = xp.sum(xp.linalg.diagonal(gram), axis=-1)[..., None, None] / k
    step = float(xp.finfo(gram.dtype).eps) ** (2 / 3)
    smallest = xp.finfo(gram.dtype).smallest_normal
    return (size * step + smallest) * xp.eye(k, dtype=gram.dtype, device=gram.device)


def _magnitudes(Q: Array, beta: Array, targets: Targets, penalty: Penalty) -> Array:
    """Return the penalised magnitudes of the residuals: ``(pieces, rows, units)``."""
    xp = namespace(Q)
    k, c = beta.shape[1:]
    widened = k if beta.dtype != Q.dtype else 0
    parts = [
        penalty(targets.rows(rows) - xp.astype(Q[:, rows, :], beta.dtype, copy=False) @ beta)
        for rows in row_blocks(Q.shape[1], Q.shape[0] * (c + widened))
    ]
    return xp.concat(parts, axis=1)


def _huber_weight(size: Array, lam: Array, valid: Array) -> Array:
    """Return the weights of one reweighting: rows beyond `lam` pull with constant force."""
    xp = namespace(size)
    level = lam[:, None, None]
    tiny = xp.finfo(size.dtype).smallest_normal
    # tiny: lam may be 0, and both branches of a `where` are computed.
    weight = xp.where(size > level, level / xp.maximum(size, level + tiny), 1.0)
    return weight * valid


def _reweighted(
    Q: Array, targets: Targets, weight: Array, valid: Array, whole: Equations
) -> Equations:
    """Return the equations of the fit by `weight`, given those of all `valid` rows.

    Where that is quicker, the lost weight of a few rows is subtracted: in a single piece only,
    because the rows differ between the pieces of a batch.
    """
    xp = namespace(Q)
    if weight.shape[0] == weight.shape[2] == 1:
        lost = valid - weight
        if int(xp.count_nonzero(lost)) <= _DOWNDATED * Q.shape[1]:
            rest = whole - normal_equations(Q, targets, lost)
            if bool(xp.all(rest.size() >= _REMAINS * whole.size())):
                return rest
    return normal_equations(Q, targets, weight)


def selection_times(
    Q: Array,
    targets: Targets,
    valid: Array,
    penalty: Penalty = group,
    *,
    steps: int = STEPS,
    sweeps: int = 1,
    on_step: Callable[[], None] | None = None,
) -> Array:
    """Return ``Z_i = sup{lam : gamma_i(lam) != 0}`` for every row: ``(pieces, rows)``.

    The grid is placed so that each cell lets in about ``1 / steps`` of a piece's rows, and
    the crossing is interpolated inside its cell: times are continuous. Rows that are still
    inactive at the end of the grid, the least suspicious ones, get the time they would have
    if beta stayed where it is. The default grid is made for the order of the rows; more `steps`
    and `sweeps` bring the values themselves as close as is wanted. Invalid rows get 0.
    `on_step` is called once per grid cell.
    """
    xp = namespace(Q)
    valid_float = xp.astype(valid, Q.dtype)
    count = xp.sum(valid_float, axis=1)
    whole = normal_equations(Q, targets, valid_float[..., None])
    beta = whole.solve()
    size = _magnitudes(Q, beta, targets, penalty)
    row_size = xp.max(size, axis=-1) * valid_float
    # From here up all mean shifts are 0 and beta is least squares: the path starts here.
    lam = xp.max(row_size, axis=1)
    Z, active = double(row_size), xp.zeros(valid.shape, dtype=xp.bool, device=Q.device)
    for step in range(1, steps):
        # Magnitudes can grow when beta moves, but the path must not turn back.
        lam_next = xp.minimum(_upper_quantile(row_size, count, step / steps), lam)
        for sweep in range(sweeps):
            if sweep:
                size = _magnitudes(Q, beta, targets, penalty)
            weight = _huber_weight(size, lam_next, valid_float[..., None])
            beta = _reweighted(Q, targets, weight, valid_float[..., None], whole).solve()
        size = _magnitudes(Q, beta, targets, penalty)
        row_size_next = xp.max(size, axis=-1) * valid_float
        # Eq. select is a supremum: a row that leaves the model and returns keeps its first time.
        crossing = (row_size_next > lam_next[:, None]) & ~active
        Z = xp.where(crossing, _crossing(row_size, row_size_next, lam, lam_next), Z)
        active = active | crossing
        row_size, lam = row_size_next, lam_next
        if on_step is not None:
            on_step()
    # Double precision, so that near-equal rows do not tie.
    frozen = xp.max(_magnitudes(Q, double(beta), targets, penalty), axis=-1)
    return xp.where(active, Z, frozen * double(valid_float))


def _upper_quantile(values: Array, count: Array, share: float) -> Array:
    """Return, per piece, the value that `share` of its valid rows exceed.

    Invalid rows hold 0 and sort below all others.
    """
    xp = namespace(values)
    rank = xp.astype(xp.floor(count * share), xp.int64)
    ordered = xp.sort(values, axis=1, descending=True, stable=False)
    return xp.take_along_axis(ordered, rank[:, None], axis=1)[:, 0]


def _crossing(before: Array, after: Array, lam: Array, lam_next: Array) -> Array:
    """Return the lam at which a magnitude, linear inside the cell, meets lam."""
    xp = namespace(before)
    # Double precision: single would make a few of many thousand times coincide.
    lam, lam_next = double(lam)[:, None], double(lam_next)[:, None]
    gap = lam - double(before)
    # A row that is above lam when its cell begins crosses at lam itself.
    below = xp.where(gap > 0, gap, 0.0)
    total = below + double(after) - lam_next
    share = xp.where(total > 0, below / xp.where(total > 0, total, 1.0), 0.0)
    return lam - share * (lam - lam_next)


def gamma_path(
    X: Array,
    Y: Array,
    lams: Array,
    penalty: Penalty = group,
    *,
    intercept: bool = False,
    tol: float = 1e-7,
    max_sweeps: int = 20_000,
) -> Array:
    """Return the solution ``(lams, rows, c)`` of one problem at every `lam`, in their order.

    Warm starts make descending `lams` the quick way. Each level is solved until no
    coefficient's effect on a row moves by more than `tol`, as far as the precision allows.
    """
    xp = namespace(X, Y)
    valid = xp.ones((1, X.shape[0]), dtype=xp.bool, device=X.device)
    basis = fit_basis(X[None], valid, intercept, X.shape[1])
    Q, targets = basis.transform(X[None]), Targets.from_matrix(Y[None])
    weight = xp.astype(valid, Q.dtype)[..., None]
    beta = least_squares(Q, targets, weight)
    tol = max(tol, 16 * float(xp.finfo(Q.dtype).eps))
    path = []
    for lam in lams:
        level = xp.reshape(xp.asarray(lam, dtype=Q.dtype, device=Q.device), (1,))
        for _ in range(max_sweeps):
            size = _magnitudes(Q, beta, targets, penalty)
            beta_next = least_squares(Q, targets, _huber_weight(size, level, weight))
            moved = float(xp.max(xp.abs(Q @ (beta_next - beta))))
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
    return xp.stack(path)
