"""Least squares on labels: a well-conditioned basis, normal equations, and residuals."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from kspr.core.arrays import gram_of, in_order, one_hot, row_blocks

_SMALL_TARGETS = 1 << 22
"""Numbers in a matrix of targets that may be held as a whole."""
_FEW_COLUMNS = 256
"""Up to here targets are multiplied as a matrix; more columns of one-hot rows are mostly zeros."""


@dataclass(frozen=True)
class Basis:
    """Well-conditioned directions that span the columns of X, and maybe an intercept.

    Least squares does not care which basis of the column space it is given; arithmetic in
    single precision does. Dependent, constant and wildly scaled columns end here.
    """

    mean: np.ndarray  # (pieces, 1, p)
    directions: np.ndarray  # (pieces, p, k)
    intercept: bool

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Return the coordinates of the rows of `X`: ``(pieces, rows, k)``."""
        pieces, n, p = X.shape
        first = int(self.intercept)
        width = first + self.directions.shape[2]
        # With an intercept the first column stays 1.
        Q = np.ones((pieces, n, width), dtype=X.dtype)
        for rows in row_blocks(n, pieces * p):
            Q[:, rows, first:] = (X[:, rows, :] - self.mean) @ self.directions
        return Q


def fit_basis(X: np.ndarray, valid: np.ndarray, intercept: bool, max_directions: int) -> Basis:
    """Return a basis of the columns of `X` over the rows that are `valid`.

    Directions that carry no more than rounding error become zero columns, so that every
    piece of a batch keeps one shape. At most `max_directions` are kept: the leading ones of the
    columns scaled to one size, because the columns' own scales may mean nothing.
    """
    pieces, n, p = X.shape
    weight = valid.astype(X.dtype)[..., None]

    def blocks() -> WeightedBlocks:
        return ((X[:, rows, :], weight[:, rows, :]) for rows in row_blocks(n, pieces * p))

    total = np.sum(weight.astype(np.float64), axis=1, keepdims=True)
    total = np.where(total > 0, total, 1.0)  # a half may be empty
    mean = np.zeros((pieces, 1, p), dtype=X.dtype)
    if intercept:
        mean = (in_order(column_sums(blocks())) / total).astype(X.dtype)
    gram = in_order(column_products(blocks(), mean))
    return basis_from(gram, mean, total, intercept, max_directions)


WeightedBlocks = Iterable[tuple[np.ndarray, np.ndarray]]
"""Rows ``(pieces, rows, p)`` with their weights ``(pieces, rows, 1)``."""


def column_sums(blocks: WeightedBlocks) -> Iterator[np.ndarray]:
    """Yield the sums of the columns, block by block, in double precision."""
    for X, weight in blocks:
        yield np.sum((X * weight).astype(np.float64), axis=1, keepdims=True)


def column_products(blocks: WeightedBlocks, mean: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the products of the centred columns, block by block.

    In double precision: their sum has the squared condition number of the columns.
    """
    for X, weight in blocks:
        block = ((X - mean) * weight).astype(np.float64)
        yield np.matrix_transpose(block) @ block


def basis_from(
    gram: np.ndarray, mean: np.ndarray, total: np.ndarray, intercept: bool, max_directions: int
) -> Basis:
    """Return the basis, given the products of its centred columns over `total` rows."""
    size = np.sqrt(np.linalg.diagonal(gram))
    scale = np.where(size > 0, 1.0 / np.where(size > 0, size, 1.0), 0.0)
    values, vectors = np.linalg.eigh(gram * scale[:, :, None] * scale[:, None, :])
    k = min(gram.shape[-1], max_directions)
    # eigh sorts ascending: the leading directions are the last.
    values, vectors = values[:, -k:], vectors[:, :, -k:]
    floor = 1e-8 if mean.dtype == np.float32 else 1e-13
    kept = values > floor * np.maximum(values[:, -1:], 1e-300)
    # Unit mean square, the size of the intercept's column of ones.
    spread = np.where(kept, np.sqrt(total[:, :, 0] / np.where(kept, values, 1.0)), 0.0)
    directions = scale[:, :, None] * vectors * spread[:, None, :]
    return Basis(mean, directions.astype(mean.dtype), intercept)


@dataclass(frozen=True)
class Targets:
    """The rows to be explained: given as a matrix, or as labels that stand for one-hot rows."""

    n_columns: int
    rows: Callable[[slice | np.ndarray], np.ndarray]
    labels: np.ndarray | None = None  # (pieces, rows), if the rows are one-hot

    @classmethod
    def from_labels(cls, labels: np.ndarray, n_classes: int, dtype: np.dtype | type) -> "Targets":
        """Return one-hot targets: built once where they are small, else block by block."""
        if labels.shape[0] * labels.shape[1] * n_classes <= _SMALL_TARGETS:
            Y = one_hot(labels, n_classes, dtype)
            return cls(n_classes, lambda rows: Y[:, rows, :], labels)
        return cls(n_classes, lambda rows: one_hot(labels[:, rows], n_classes, dtype), labels)

    @classmethod
    def from_matrix(cls, Y: np.ndarray) -> "Targets":
        """Return targets that stand in a matrix ``(pieces, rows, columns)``."""
        return cls(Y.shape[-1], lambda rows: Y[:, rows, :])


@dataclass(frozen=True)
class Equations:
    """The normal equations of a weighted fit."""

    gram: np.ndarray  # (pieces, units, k, k)
    moment: np.ndarray  # (pieces, k, c)

    def __add__(self, other: "Equations") -> "Equations":
        return Equations(self.gram + other.gram, self.moment + other.moment)

    def __sub__(self, other: "Equations") -> "Equations":
        return Equations(self.gram - other.gram, self.moment - other.moment)

    def size(self) -> np.ndarray:
        """Return the sum of the weighted squares that went in, per piece."""
        return np.asarray(np.sum(np.linalg.diagonal(self.gram), axis=(1, 2)))

    def solve(self, ridge: np.ndarray | float = 0.0) -> np.ndarray:
        """Return the coefficients ``(pieces, k, c)``; `ridge` is added to the squares."""
        gram = self.gram + _jitter(self.gram) + ridge
        # One matrix for all classes under `group`; `lasso` has weights per class.
        if gram.shape[1] == 1:
            return np.linalg.solve(gram[:, 0], self.moment)
        columns = np.matrix_transpose(self.moment)[..., None]
        return np.matrix_transpose(np.linalg.solve(gram, columns)[..., 0])

    def left(self, beta: np.ndarray) -> float:
        """Return the squares that coefficients leave, without those of the targets themselves."""
        # In double precision: it is a difference of two large sums.
        beta = beta.astype(np.float64)
        return float(np.sum(beta * (self.gram[:, 0] @ beta - 2 * self.moment)))

    def freedom(self, ridge: np.ndarray | float = 0.0) -> np.ndarray:
        """Return the degrees of freedom of the fit, per piece: the sum of its rows' leverages."""
        gram = self.gram[:, 0]
        hat = np.linalg.solve(gram + _jitter(gram) + ridge, gram)
        return np.asarray(np.sum(np.linalg.diagonal(hat), axis=-1))


def least_squares(Q: np.ndarray, targets: Targets, weight: np.ndarray) -> np.ndarray:
    """Return the coefficients ``(pieces, k, c)`` of the weighted fit.

    `weight` has one column for weights that all targets share, or one per target.
    """
    return normal_equations(Q, targets, weight).solve()


def normal_equations(Q: np.ndarray, targets: Targets, weight: np.ndarray) -> Equations:
    """Return the equations of the fit in which each row has a `weight`."""
    pieces, _, k = Q.shape
    units, c = weight.shape[-1], targets.n_columns
    labels = targets.labels if c > _FEW_COLUMNS and pieces == units == 1 else None
    gram = np.zeros((pieces, units, k, k), dtype=Q.dtype)
    moment = np.zeros((pieces, k, c), dtype=Q.dtype)
    for rows in _weighted_rows(weight, pieces * (units * k + (c if labels is None else 0))):
        q, w = Q[:, rows, :], weight[:, rows, :]
        if units == 1:
            # The root of the weight on both sides: `gram_of` can then use the symmetry.
            root = np.sqrt(w)
            weighted = q * root
            gram = gram + gram_of(weighted)[:, None]
            if labels is not None:
                _add_by_label(moment[0], weighted[0], labels[0, rows], root[0, :, 0])
                continue
            moment = moment + np.matrix_transpose(weighted) @ (root * targets.rows(rows))
        else:
            weighted = q[:, None] * np.matrix_transpose(w)[..., None]
            gram = gram + np.matrix_transpose(weighted) @ q[:, None]
            moment = moment + np.matrix_transpose(q) @ (w * targets.rows(rows))
    return Equations(gram, moment)


def _add_by_label(
    moment: np.ndarray, weighted: np.ndarray, label: np.ndarray, root: np.ndarray
) -> None:
    """Add the product with one-hot rows: sums by label, which need no matrix of them."""
    n, c = len(label), moment.shape[1]
    sums = csr_array((root, (label, np.arange(n))), shape=(c, n)) @ weighted
    moment += sums.T


def _weighted_rows(weight: np.ndarray, floats_per_row: int) -> Iterator[slice | np.ndarray]:
    """Yield the rows to walk, in blocks: of a single piece, those that have a weight."""
    n = weight.shape[1]
    if weight.shape[0] == 1 and weight.shape[2] == 1:
        (rows,) = np.nonzero(weight[0, :, 0])
        # Gathered rows are copies, slices are views: gather only if that leaves rows out.
        if rows.shape[0] < n:
            yield from (rows[block] for block in row_blocks(rows.shape[0], floats_per_row))
            return
    yield from row_blocks(n, floats_per_row)


def _jitter(gram: np.ndarray) -> np.ndarray:
    """Return a diagonal that settles directions which the weighted rows do not show.

    Well above rounding error, or such a direction's coefficient would be rounding error divided
    by rounding error; well below anything that the visible directions could feel.
    """
    k = gram.shape[-1]
    size = np.sum(np.linalg.diagonal(gram), axis=-1)[..., None, None] / k
    step = float(np.finfo(gram.dtype).eps) ** (2 / 3)
    smallest = np.finfo(gram.dtype).smallest_normal
    return np.asarray((size * step + smallest) * np.eye(k, dtype=gram.dtype))


def most_confident(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the highest-scoring class of each row other than its label."""
    is_label = one_hot(labels, scores.shape[-1], bool)
    scores = scores if scores.dtype.kind == "f" else scores.astype(np.float64)
    # Log-probabilities may hold -inf; every other class still comes before the label.
    finite = np.maximum(scores, np.finfo(scores.dtype).min)
    return np.asarray(np.argmax(np.where(is_label, -np.inf, finite), axis=-1))


def closed_form_times(prediction: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return ``Z_j = |y_j - x_j beta|``, the norm of a row's residual: ``(..., rows)``.

    Computed in double precision, so that near-equal rows do not tie.
    """
    of_label = np.take_along_axis(prediction, labels[..., None], axis=-1)
    return np.asarray(np.sqrt(_squares(prediction, of_label))[..., 0])


def all_times(prediction: np.ndarray) -> np.ndarray:
    """Return the time that every class would have as the label: ``(rows, classes)``."""
    return np.asarray(np.sqrt(_squares(prediction, prediction)))


def _squares(prediction: np.ndarray, entries: np.ndarray) -> np.ndarray:
    """Return ``|e_k - p|^2`` for the classes k whose entries of `prediction` are `entries`."""
    shown = prediction.astype(np.float64)
    # 1 + |p|^2 - 2 p_k needs one pass over the classes, whatever k is.
    size = np.sum(shown * shown, axis=-1, keepdims=True)
    # For a perfect fit rounding can leave it just below 0.
    return np.asarray(np.maximum(1.0 + size - 2.0 * entries.astype(np.float64), 0.0))
