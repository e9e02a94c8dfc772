"""The fit for each fold, to all others: without their likely wrong labels, linear in the features.

A ridge regression on all rows of the other folds gives every label of them a chance to be right,
through the transition matrix of their anchors. Of each class as many rows are kept as these chances
add up to, and the rest is fitted again. A fixed share would lose right labels where noise is low
and keep wrong ones where it is high.

Rows are fitted in coordinates that are good for arithmetic. To judge rows, their basis and its
coefficients are multiplied once, and a row costs one product with its features, whatever the number
of coordinates.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, reduce

import numpy as np

from kspr.core.arrays import rank_within, room_for_tiles, row_blocks, rows_times, tile_type
from kspr.core.regression import Basis, Equations, Targets, fit_basis, normal_equations
from kspr.core.transition import Anchors, Transition, bin_sizes, estimate_transition

__all__ = [
    "ROUNDS",
    "TEMPERATURES",
    "Chances",
    "LinearFit",
    "calibration_rows",
    "fit_folds",
    "max_directions",
    "refit",
]

ROUNDS = 4
"""Times that rows are fitted again; more change nothing that was measured."""
_RIDGE = 100.0
"""Penalty per class, in rows, for features with a mean square of 1, on digits and CIFAR-10."""
_PARTS, _CLEARLY = 4.0 ** -np.arange(5), 1.05
"""Parts of that penalty to choose from, and how many times more must be left by all of it: features
of many classes that tell much, such as those of texts, need a twentieth or less."""
_FEW_CLASSES = 12
"""Up to here the usual penalty stays: on labels of people the smaller one ordered rows worse."""
_LEAVE_OUT = 0.5
"""Part of the leverage that is taken off. Without any, 5,000 CIFAR-10 rows with Sym. 60 % keep too
many wrong labels; with all of it, the small classes of banking77 lose right ones."""
_HELD = 1 << 24
"""Fitted values of a fit that are held; more are computed again in every pass over them."""
_SOFTENING = 1.4
"""The fit is too confident about doubtful samples; a softer softmax orders them better."""
TEMPERATURES = tuple(0.0125 * 2 ** (step / 2) for step in range(-8, 13))
"""The more classes, the smaller the differences between fitted values, and the lower the best."""
_USUAL = 0.1
"""Where the search for the temperature of a fit begins."""
_CALIBRATION_ROWS, _FEWER_ROWS = 5_000, 500
_CALIBRATION_VALUES = 1_000_000
"""Fitted values from which on fewer rows set the temperature: those of very many classes."""
_SMALLEST = 1e-30

Fitted = Callable[[slice | np.ndarray], np.ndarray]
"""Fitted values ``(rows, classes)`` of some rows."""
Each = Callable[[Callable[[int], np.ndarray], Iterable[int]], Iterable[np.ndarray]]
"""Like `map`; it may work at several items at once."""


def fit_folds(
    X: np.ndarray,
    label: Sequence[np.ndarray],
    n_classes: int,
    *,
    basis: Basis | None = None,
    on_step: Callable[[], None] | None = None,
    each: Each = map,
) -> "LinearFit":
    """Return the fitted values of each fold by what the others have learned.

    `X` has the features ``(rows, p)`` of the fitted rows, fold after fold; with a `basis`, their
    coordinates in it. `label` has the labels of each fold. The fit takes features in any case.
    `on_step` is called after each of the `ROUNDS` of each fold; `each` works at several of them.
    """
    sizes = [len(part) for part in label]
    if basis is None:
        # One basis for all folds: it does not depend on labels, and the coefficients of one apply
        # to the others.
        limit = max_directions(len(X) - min(sizes))
        basis = fit_basis(X[None], np.ones((1, len(X)), dtype=bool), True, limit)
        X = basis.transform(X[None])[0]
    folds, start = [], 0
    for codes in label:
        folds.append(_Rows(X[start : start + len(codes)], codes, n_classes))
        start += len(codes)
    del X
    part = _ridge_part(folds) if n_classes > _FEW_CLASSES else 1.0

    def fit(k: int) -> np.ndarray:
        return refit(_Rows.but(folds, k), part, on_step)

    return LinearFit.in_features(basis, np.stack(list(each(fit, range(len(folds))))))


def max_directions(n_rows: int) -> int:
    """Return the largest number of directions that `n_rows` rows are fitted in.

    With as many directions as rows, the fit would be perfect and leave no residuals.
    """
    return max(1, n_rows // 4 - 1)


def _ridge_part(folds: Sequence["_Rows"]) -> float:
    """Return the part of the penalty with which folds predict each other's labels clearly better.

    By the squares that are left. Labels that are wrong whatever the features say add the same to
    all of them.
    """
    left = np.zeros(len(_PARTS))
    for fold in folds:
        learned = [other for other in folds if other is not fold]
        equations = reduce(Equations.__add__, (other.equations for other in learned))
        ridge = _ridge(fold.Q, _size(sum(len(other.label) for other in learned), fold.n_classes))
        for i, part in enumerate(_PARTS):
            left[i] += len(fold.label) + fold.equations.left(equations.solve(part * ridge))
    return float(_PARTS[np.argmin(left)]) if left[0] > _CLEARLY * min(left) else 1.0


def refit(
    rows: "_Rows", part: float = 1.0, on_step: Callable[[], None] | None = None
) -> np.ndarray:
    """Return beta, ``(k, c)``, fitted to those of the rows that are likely right.

    `part` is that of the penalty. `on_step` is called after each round.
    """
    rows.ridge *= part
    # Of a class of one row that row is always kept.
    moves = bool(np.bincount(rows.label, minlength=1).max() > 1)
    for _ in range(ROUNDS):
        moves = moves and rows.keep_likely_right()
        if on_step is not None:
            on_step()
    return rows.beta()


class _Rows:
    """Rows that a fit learns from: their normal equations, and which of them these hold.

    `Q` is ``(rows, k)`` with a mean square of about 1, and its first column is 1. Nothing but the
    labels of these rows is used.
    """

    def __init__(
        self,
        Q: np.ndarray,
        label: np.ndarray,
        n_classes: int,
        equations: Equations | None = None,
    ) -> None:
        self.Q, self.label, self.n_classes = Q, label, n_classes
        self.targets = Targets.from_labels(label[None], n_classes, Q.dtype)
        self.ridge = _ridge(Q, _size(len(label), n_classes))
        self.kept = np.ones(len(label), dtype=bool)
        self.temperature = _USUAL
        self.equations = self._of(self.kept) if equations is None else equations

    @classmethod
    def but(cls, folds: Sequence["_Rows"], k: int) -> "_Rows":
        """Return the rows of all folds but one; of two folds, the other as it is."""
        others = [fold for number, fold in enumerate(folds) if number != k]
        if len(others) == 1:
            return others[0]
        return cls(
            np.concatenate([fold.Q for fold in others]),
            np.concatenate([fold.label for fold in others]),
            folds[k].n_classes,
            reduce(Equations.__add__, (fold.equations for fold in others)),
        )

    def beta(self) -> np.ndarray:
        return np.asarray(self.equations.solve(self.ridge)[0])

    def keep_likely_right(self) -> bool:
        """Keep of each class as many rows as are right by the present fit, the likeliest first.

        Return whether other rows are kept than before.
        """
        fitted = self._fitted()
        chances = _chances(fitted, self.label, self.n_classes, self.temperature)
        self.temperature = chances.temperature
        blocks = row_blocks(len(self.label), self.n_classes)
        right = np.concatenate(
            [chances.right_of(fitted(rows), self.label[rows]) for rows in blocks]
        )
        wanted = np.ceil(np.bincount(self.label, weights=right, minlength=self.n_classes))
        rank, _ = rank_within(-right, self.label, self.n_classes)
        keep = rank < wanted[self.label]
        joined, left = keep & ~self.kept, self.kept & ~keep
        # Rows that stay are the most of them: their share of the equations is known already.
        if joined.sum() + left.sum() < keep.sum():
            self.equations = self.equations + self._of(joined) - self._of(left)
        else:
            self.equations = self._of(keep)
        self.kept = keep
        return bool(joined.any() or left.any())

    def _of(self, rows: np.ndarray) -> Equations:
        weight = rows[None, :, None].astype(self.Q.dtype)
        return normal_equations(self.Q[None], self.targets, weight)

    def _fitted(self) -> Fitted:
        """Return the fitted values, as if no row had seen its own label.

        Leaving a row out moves its fitted value away from its label by its leverage; the mean
        leverage of the kept rows serves for each of them.
        """
        beta = self.beta()
        freedom = float(self.equations.freedom(self.ridge)[0])
        leverage = _LEAVE_OUT * min(1.0, freedom / max(1, int(self.kept.sum())))

        def fitted(rows: slice | np.ndarray) -> np.ndarray:
            values = self.Q[rows] @ beta
            seen = np.flatnonzero(self.kept[rows])
            values[seen, self.label[rows][seen]] -= leverage
            values[seen] /= 1.0 - leverage
            return np.asarray(values)

        n = len(self.label)
        if n * self.n_classes > _HELD:
            return fitted
        return np.concatenate([fitted(rows) for rows in row_blocks(n, self.n_classes)]).__getitem__


def _size(n_rows: int, n_classes: int) -> float:
    """Return the penalty of a fit to `n_rows` rows."""
    # Half of the rows at most: a larger penalty would leave nothing of a small data set.
    return min(_RIDGE * n_classes, n_rows / 2)


def _ridge(Q: np.ndarray, size: float) -> np.ndarray:
    """Return the penalty as a diagonal matrix; the intercept has none."""
    weight = np.full(Q.shape[-1], size, dtype=Q.dtype)
    weight[0] = 0.0
    return np.diag(weight)


def _chances(fitted: Fitted, label: np.ndarray, n_classes: int, near: float) -> "Chances":
    """Return what fitted values say about labels, with a temperature that may be `near` one."""
    nowhere = np.zeros_like(label)
    anchors = Anchors(bin_sizes(label, nowhere, n_classes))
    for rows in row_blocks(len(label), n_classes):
        anchors.add(fitted(rows), label[rows], nowhere[rows])
    chosen = calibration_rows(len(label), n_classes)
    noise = estimate_transition(anchors.counts())
    return Chances.fit(fitted(chosen), label[chosen], noise, near)


def calibration_rows(n_rows: int, n_classes: int) -> np.ndarray:
    """Return the numbers of the rows that the temperature is chosen by."""
    wanted = min(_CALIBRATION_ROWS, max(_FEWER_ROWS, _CALIBRATION_VALUES // n_classes))
    return np.arange(0, n_rows, max(1, n_rows // wanted))


@dataclass(frozen=True)
class Chances:
    """What fitted values say about labels, given how labels go wrong."""

    noise: Transition
    temperature: float

    @classmethod
    def fit(
        cls, prediction: np.ndarray, label: np.ndarray, noise: Transition, near: float = _USUAL
    ) -> "Chances":
        """Choose the temperature under which the given labels are most likely.

        `prediction` and `label` are of the `calibration_rows`. The search climbs from the
        temperature next to `near`.
        """
        # (rows, classes): the chance of the given label under each true class.
        columns = noise.columns(label, prediction.dtype)

        @cache
        def log_likelihood(k: int) -> float:
            chance = np.sum(_softmax(prediction, TEMPERATURES[k]) * columns, axis=1)
            return float(np.mean(np.log(np.maximum(chance, 1e-12))))

        best = int(np.argmin(np.abs(np.log(TEMPERATURES) - np.log(near))))
        while True:
            # Labels get less likely on both sides of the best temperature: few have to be tried.
            beside = range(max(best - 1, 0), min(best + 2, len(TEMPERATURES)))
            last, best = best, max(beside, key=log_likelihood)
            if best == last:
                return cls(noise, TEMPERATURES[best])

    def right_of(self, prediction: np.ndarray, label: np.ndarray) -> np.ndarray:
        """Return the chance that each given label is right, by Bayes' rule."""
        # A softer softmax than the likeliest one: it orders doubtful samples better.
        soft = _softmax(prediction, _SOFTENING * self.temperature)
        # A chance that is rounded to 0 would make a label wrong where no label is wrong.
        np.maximum(soft, _SMALLEST, out=soft)
        seen = np.sum(soft * self.noise.columns(label, soft.dtype), axis=1)
        own = soft[np.arange(len(label)), label] * self.noise.right[label].astype(soft.dtype)
        return np.asarray(own / seen, dtype=np.float64)


def _softmax(prediction: np.ndarray, temperature: float) -> np.ndarray:
    shown = prediction / temperature
    # In place: for many classes, new arrays would take longer than the arithmetic.
    shown -= shown.max(axis=1, keepdims=True)
    np.exp(shown, out=shown)
    shown /= shown.sum(axis=1, keepdims=True)
    return np.asarray(shown)


@dataclass(frozen=True)
class LinearFit:
    """The fitted values of every class, by the fold that a row is in."""

    mean: np.ndarray  # (p,)
    coefficients: np.ndarray  # (folds, p, c)
    constant: np.ndarray  # (folds, c)

    @classmethod
    def in_features(cls, basis: Basis, beta: np.ndarray) -> "LinearFit":
        """Return the fit with the coefficients `beta`, ``(folds, k, c)``, in a basis."""
        first = int(basis.intercept)
        # Double precision: this is done once, and every fitted value depends on it.
        coefficients = basis.directions.astype(np.float64) @ beta[:, first:, :].astype(np.float64)
        constant = beta[:, 0, :] if basis.intercept else np.zeros_like(beta[:, 0, :])
        return cls(basis.mean[0, 0, :], coefficients.astype(beta.dtype), constant)

    @property
    def n_classes(self) -> int:
        """Number of columns of the fitted values."""
        return int(self.constant.shape[1])

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return len(self.constant)

    def predict(self, X: np.ndarray, fold: np.ndarray) -> np.ndarray:
        """Return the fitted values ``(rows, c)`` of features ``(rows, p)``.

        `fold` says which fold each row is in; the fit on all others judges it.
        """
        p, c = self.coefficients.shape[1:]
        values = np.empty((len(fold), c), dtype=self.constant.dtype)
        dtype = tile_type(p, c, values.dtype)
        for number in range(self.n_folds):
            rows = np.flatnonzero(fold == number)
            if not len(rows):
                continue
            part = X if len(rows) == len(fold) else X[rows]
            centred = room_for_tiles(len(rows), p, dtype)
            np.subtract(part, self.mean.astype(dtype), out=centred[: len(rows)])
            product = rows_times(centred, self.coefficients[number])[: len(rows)]
            values[rows] = product + self.constant[number]
        return values
