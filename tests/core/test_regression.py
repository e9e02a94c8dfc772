"""Mean-shift regression against an independent solver, and the laws of selection times."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr
from sklearn.linear_model import Lasso, MultiTaskLasso

from kspr.core.penalties import PENALTIES, Penalty, group, lasso, shrink
from kspr.core.regression import (
    Targets,
    _equations,
    _reweighted,
    fit_basis,
    gamma_path,
    least_squares,
    selection_times,
)

SHAPES = [(30, 3, 4), (40, 6, 3), (25, 2, 2), (60, 10, 5), (50, 4, 1), (35, 8, 6)]
penalties = pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES.keys())
intercepts = pytest.mark.parametrize("intercept", [False, True], ids=["through_0", "intercept"])


def residual_maker(X: np.ndarray, intercept: bool) -> np.ndarray:
    """Return I - H as the dense matrix it is, H the projection on X, or on [1, X]."""
    A = np.column_stack([np.ones(len(X)), X]) if intercept else X
    U, s, _ = np.linalg.svd(A, full_matrices=False)
    U = U[:, s > 1e-10 * s[0]]
    return np.eye(len(X)) - U @ U.T


def solve_densely(D: np.ndarray, Y: np.ndarray, lam: float, penalty: Penalty) -> np.ndarray:
    """Solve ``1/2 |D Y - D gamma|^2 + P(gamma; lam)`` by scikit-learn's coordinate descent.

    Its objective has ``1/(2n)`` before the squares: alpha is lam / n.
    """
    options = {"alpha": lam / len(D), "fit_intercept": False, "tol": 1e-13, "max_iter": 200_000}
    if penalty is group:
        return MultiTaskLasso(**options).fit(D, D @ Y).coef_.T
    return np.column_stack([Lasso(**options).fit(D, D @ y).coef_ for y in Y.T])


def problem(seed: int, n: int, p: int, c: int, kind: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    if kind == "one_hot":
        return X, np.eye(c)[rng.integers(0, c, n)]
    return X, X @ rng.standard_normal((p, c)) + rng.standard_normal((n, c))


def labelled(seed: int, pieces: int, n: int, p: int, c: int) -> tuple[np.ndarray, np.ndarray]:
    """Return blobs ``(pieces, n, p)`` and their labels, a fifth of which are random."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, c, (pieces, n))
    X = rng.standard_normal((c, p))[label] + 0.7 * rng.standard_normal((pieces, n, p))
    return X, np.where(rng.random(label.shape) < 0.2, rng.integers(0, c, label.shape), label)


def times(
    X: np.ndarray,
    label: np.ndarray,
    c: int,
    penalty: Penalty = group,
    *,
    intercept: bool = False,
    valid: np.ndarray | None = None,
    max_directions: int | None = None,
    **options: int,
) -> np.ndarray:
    valid = np.ones(label.shape, dtype=bool) if valid is None else valid
    basis = fit_basis(X, valid, intercept, max_directions or X.shape[-1])
    targets = Targets.from_labels(label, c, X.dtype)
    return selection_times(basis.transform(X), targets, valid, penalty, **options)


# --- The path ---------------------------------------------------------------------------------


@penalties
@intercepts
@pytest.mark.parametrize(
    ("seed", "shape", "kind"),
    [
        (seed, shape, kind)
        for seed, shape in enumerate(SHAPES)
        for kind in ("one_hot", "real")
        if kind == "real" or shape[-1] > 1  # a single one-hot column has no residual
    ],
)
def test_path_is_that_of_coordinate_descent_on_the_dense_design(
    seed: int, shape: tuple[int, int, int], kind: str, intercept: bool, penalty: Penalty
) -> None:
    X, Y = problem(seed, *shape, kind)
    D = residual_maker(X, intercept)
    lams = penalty(D @ Y).max() * np.array([1.01, 0.9, 0.6, 0.3, 0.1])
    path = gamma_path(X, Y, lams, penalty, intercept=intercept, tol=1e-9, max_sweeps=20_000)
    dense = np.stack([solve_densely(D, Y, lam, penalty) for lam in lams])
    np.testing.assert_allclose(path, dense, atol=1e-4)
    np.testing.assert_array_equal((path != 0).any(-1), (dense != 0).any(-1))
    assert not path[0].any(), "nothing is active above the largest residual"
    assert path[1].any(), "the problem must be one that can fail"


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(8, 60),
    p=st.integers(1, 6),
    c=st.integers(2, 5),
    kind=st.sampled_from(["one_hot", "real"]),
    share=st.floats(0.15, 1.1),
    penalty=st.sampled_from(list(PENALTIES.values())),
    intercept=st.booleans(),
)
def test_path_satisfies_the_optimality_conditions(
    seed: int, n: int, p: int, c: int, kind: str, share: float, penalty: Penalty, intercept: bool
) -> None:
    X, Y = problem(seed, n, p, c, kind)
    D = residual_maker(X, intercept)
    lam = share * max(penalty(D @ Y).max(), 0.1)
    (gamma,) = gamma_path(X, Y, [lam], penalty, intercept=intercept, tol=1e-9, max_sweeps=20_000)
    gradient = D @ (Y - gamma)  # I - H is idempotent
    size = np.broadcast_to(penalty(gamma), gamma.shape)
    on = size > 0
    np.testing.assert_allclose(gradient[on], (lam * gamma / np.where(on, size, 1))[on], atol=1e-4)
    assert penalty(np.where(on, 0, gradient)).max() <= lam + 1e-4


def test_order_of_the_levels_does_not_matter() -> None:
    X, Y = problem(0, 40, 4, 3, "real")
    lams = np.array([0.2, 1.5, 0.6, 3.0])
    up = gamma_path(X, Y, np.sort(lams), tol=1e-10)
    np.testing.assert_allclose(
        gamma_path(X, Y, lams, tol=1e-10), up[np.argsort(np.argsort(lams))], atol=1e-7
    )


@penalties
@given(seed=st.integers(0, 2**32 - 1), lam=st.floats(0, 3))
def test_shrinking_solves_the_problem_of_a_single_row(
    penalty: Penalty, seed: int, lam: float
) -> None:
    rng = np.random.default_rng(seed)
    row = rng.standard_normal((1, 4))
    best = shrink(row, lam, penalty)

    def objective(gamma: np.ndarray) -> np.ndarray:
        return ((row - gamma) ** 2).sum(-1) / 2 + lam * penalty(gamma).sum(-1)

    rivals = best + 0.1 * rng.standard_normal((200, 4))
    assert (objective(best) <= objective(rivals) + 1e-12).all()
    assert ((best == 0) == (penalty(row) <= lam)).all()


# --- Least squares and its basis --------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), units=st.sampled_from([1, 3]))
def test_least_squares_is_numpys_own_on_weighted_rows(seed: int, units: int) -> None:
    rng = np.random.default_rng(seed)
    Q, Y = rng.standard_normal((2, 30, 4)), rng.standard_normal((2, 30, 3))
    weight = rng.random((2, 30, units))
    beta = least_squares(Q, Targets.from_matrix(Y), weight)
    for b in range(2):
        for k in range(3):
            root = np.sqrt(weight[b, :, k % units])
            reference = np.linalg.lstsq(Q[b] * root[:, None], Y[b, :, k] * root)[0]
            np.testing.assert_allclose(beta[b, :, k], reference, atol=1e-8)


def test_least_squares_does_not_depend_on_the_blocks_it_walks() -> None:
    """60,000 rows make several blocks; the answer is that of one pass."""
    rng = np.random.default_rng(0)
    Q, label = rng.standard_normal((1, 60_000, 5)), rng.integers(0, 4, (1, 60_000))
    weight = rng.random((1, 60_000, 1))
    beta = least_squares(Q, Targets.from_labels(label, 4, np.float64), weight)[0]
    root = np.sqrt(weight[0])
    np.testing.assert_allclose(
        beta, np.linalg.lstsq(Q[0] * root, np.eye(4)[label[0]] * root)[0], atol=1e-9
    )


@pytest.mark.parametrize(("dtype", "atol"), [(np.float32, 2e-5), (np.float64, 1e-13)])
@pytest.mark.parametrize("active", [0.0, 0.02, 0.5, 0.74, 0.98, 1.0])
@pytest.mark.parametrize("padding", [0.0, 0.2])
def test_taking_off_what_rows_lose_is_fitting_the_rest(
    padding: float, active: float, dtype: type, atol: float
) -> None:
    """Few, half and nearly all rows active; weights down to 0.01; 20,000 rows, three blocks."""
    rng = np.random.default_rng(0)
    n, k, c = 20_000, 64, 5
    Q, label = rng.standard_normal((1, n, k)).astype(dtype), rng.integers(0, c, (1, n))
    valid = (rng.random((1, n, 1)) >= padding).astype(dtype)
    pull = np.where(rng.random((1, n, 1)) < active, rng.uniform(0.01, 0.99, (1, n, 1)), 1.0)
    weight, targets = pull.astype(dtype) * valid, Targets.from_labels(label, c, dtype)
    whole = _equations(Q, targets, valid)
    beta = _reweighted(Q, targets, weight, valid, whole).solve()
    assert beta.dtype == dtype
    np.testing.assert_allclose(beta, least_squares(Q, targets, weight), atol=atol)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_difference_of_rounding_errors_is_not_solved(dtype: type) -> None:
    """One row holds nearly all there is, and loses it: the rest is fitted from the start."""
    rng = np.random.default_rng(0)
    Q, label = rng.standard_normal((1, 500, 4)).astype(dtype), rng.integers(0, 3, (1, 500))
    Q[0, 7] *= 1e5
    valid, targets = np.ones((1, 500, 1), dtype=dtype), Targets.from_labels(label, 3, dtype)
    weight = valid.copy()
    weight[0, 7] = 1e-12
    found = _reweighted(Q, targets, weight, valid, _equations(Q, targets, valid)).solve()
    np.testing.assert_array_equal(found, least_squares(Q, targets, weight))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), intercept=st.booleans(), rank=st.integers(1, 6))
def test_basis_spans_the_columns_and_is_well_conditioned(
    seed: int, intercept: bool, rank: int
) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((1, 50, rank)) @ rng.standard_normal((rank, 6))
    X = X * 10.0 ** rng.integers(-6, 7, 6)
    valid = rng.random((1, 50)) < 0.8
    Q = fit_basis(X, valid, intercept, 6).transform(X)[0, valid[0]]
    Q = Q[:, np.linalg.norm(Q, axis=0) > 0]
    assert Q.shape[1] == rank + intercept
    assert np.linalg.cond(Q) < 1.01
    D = residual_maker(X[0, valid[0]] / np.linalg.norm(X[0], axis=0), intercept)
    np.testing.assert_allclose(np.eye(len(Q)) - Q @ np.linalg.pinv(Q), D, atol=1e-6)


def test_basis_keeps_the_largest_directions_when_it_must_choose() -> None:
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((60, 1))
    X = np.concatenate([shared + 0.05 * rng.standard_normal((60, 5))], axis=1)[None]
    (Q,) = fit_basis(X, np.ones((1, 60), dtype=bool), False, 1).transform(X)
    assert Q.shape == (60, 1)
    assert abs(np.corrcoef(Q[:, 0], shared[:, 0])[0, 1]) > 0.99


# --- Selection times --------------------------------------------------------------------------


@penalties
@intercepts
@pytest.mark.parametrize(("seed", "kind"), [(0, "one_hot"), (2, "real"), (4, "real")])
def test_times_are_where_the_path_first_leaves_zero(
    seed: int, kind: str, intercept: bool, penalty: Penalty
) -> None:
    """A fine grid of the converged path is the reference.

    Followed closely, times agree with it to its resolution, but for the last rows to enter,
    where the cells of the quantile grid are wide. The quick default gets the order right.
    """
    n, p, c = SHAPES[seed]
    X, Y = problem(seed, n, p, c, kind)
    largest = penalty(residual_maker(X, intercept) @ Y).max()
    lams, resolution = np.linspace(largest, 0.01 * largest, 150, retstep=True)
    on = (gamma_path(X, Y, lams, penalty, intercept=intercept) != 0).any(axis=-1)
    entry = np.where(on.any(axis=0), lams[on.argmax(axis=0)], 0.0)

    valid = np.ones((1, n), dtype=bool)
    Q = fit_basis(X[None], valid, intercept, p).transform(X[None])
    targets = Targets.from_matrix(Y[None])
    (close,) = selection_times(Q, targets, valid, penalty, steps=256, sweeps=20)
    early = entry >= np.quantile(entry, 0.15)
    assert np.abs(close - entry)[early].max() <= 1.3 * abs(resolution)
    assert np.abs(close - entry).max() <= 0.05 * largest
    (quick,) = selection_times(Q, targets, valid, penalty)
    assert spearmanr(quick, entry).statistic > 0.97
    assert np.abs(quick - entry).mean() < 0.05 * largest


@penalties
@intercepts
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "c"), [(40, 2), (5_000, 10)])
def test_times_have_no_ties_on_random_data(
    n: int, c: int, dtype: type, intercept: bool, penalty: Penalty
) -> None:
    X, label = labelled(1, 2, n, 8, c)
    for Z in times(X.astype(dtype), label, c, penalty, intercept=intercept):
        assert len(np.unique(Z)) == n
        assert Z.min() > 0


def test_single_precision_times_have_no_ties_in_large_pieces() -> None:
    """100,000 times are more than the float32 numbers near them can tell apart."""
    X, label = labelled(2, 1, 100_000, 4, 3)
    assert len(np.unique(times(X.astype(np.float32), label, 3))) == 100_000


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(12, 80),
    c=st.integers(2, 5),
    tail=st.sampled_from([0.6, 1.0, 3.0]),
    penalty=st.sampled_from(list(PENALTIES.values())),
)
def test_times_have_no_ties_on_heavy_tails(
    seed: int, n: int, c: int, tail: float, penalty: Penalty
) -> None:
    rng = np.random.default_rng(seed)
    X, label = rng.standard_t(tail, (1, n, 3)), rng.integers(0, c, (1, n))
    (Z,) = times(X, label, c, penalty)
    assert np.isfinite(Z).all()
    assert len(np.unique(Z)) == n


@penalties
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), pieces=st.integers(2, 6), intercept=st.booleans())
def test_pieces_solved_together_are_solved_as_alone(
    penalty: Penalty, seed: int, pieces: int, intercept: bool
) -> None:
    X, label = labelled(seed, pieces, 40, 4, 3)
    together = times(X, label, 3, penalty, intercept=intercept)
    alone = [
        times(X[b : b + 1], label[b : b + 1], 3, penalty, intercept=intercept)[0]
        for b in range(pieces)
    ]
    np.testing.assert_allclose(together, alone, rtol=1e-7, atol=1e-9)


@penalties
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), intercept=st.booleans(), junk=st.floats(-100, 100))
def test_padding_changes_nothing(penalty: Penalty, seed: int, intercept: bool, junk: float) -> None:
    X, label = labelled(seed, 1, 40, 4, 3)
    rng = np.random.default_rng(seed)
    valid = np.zeros((1, 65), dtype=bool)
    valid[0, np.sort(rng.choice(65, 40, replace=False))] = True
    wide, wide_label = np.full((1, 65, 4), junk), np.full((1, 65), 2)
    wide[valid], wide_label[valid] = X[0], label[0]
    padded = times(wide, wide_label, 3, penalty, intercept=intercept, valid=valid)
    bare = times(X, label, 3, penalty, intercept=intercept)
    np.testing.assert_allclose(padded[valid], bare[0], rtol=1e-7, atol=1e-9)
    assert not padded[~valid].any()


@penalties
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), intercept=st.booleans())
def test_times_follow_their_rows(penalty: Penalty, seed: int, intercept: bool) -> None:
    X, label = labelled(seed, 1, 50, 4, 3)
    order = np.random.default_rng(seed).permutation(50)
    moved = times(X[:, order], label[:, order], 3, penalty, intercept=intercept)
    Z = times(X, label, 3, penalty, intercept=intercept)
    np.testing.assert_allclose(moved[0], Z[0, order], rtol=1e-7, atol=1e-9)


@penalties
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), intercept=st.booleans())
def test_times_do_not_depend_on_the_basis_of_the_columns(
    penalty: Penalty, seed: int, intercept: bool
) -> None:
    """Column scales from 1e-6 to 1e6, an invertible map, dependent and constant columns."""
    rng = np.random.default_rng(seed)
    X, label = labelled(seed, 1, 60, 4, 3)
    Z = times(X, label, 3, penalty, intercept=intercept)
    mapped = X @ (np.linalg.qr(rng.standard_normal((4, 4)))[0] * rng.uniform(0.2, 5, 4))
    scaled = X * 10.0 ** rng.integers(-6, 7, 4)
    doubled = np.concatenate([X, 2 * X[..., :1], X[..., 1:2] - X[..., 2:3]], axis=-1)
    variants = [mapped, scaled, doubled, np.concatenate([X, np.zeros((1, 60, 1))], axis=-1)]
    if intercept:
        constant = np.full((1, 60, 1), rng.uniform(-1e3, 1e3))
        variants += [np.concatenate([X, constant], axis=-1), X + rng.uniform(-10, 10, 4)]
    for variant in variants:
        other = times(variant, label, 3, penalty, intercept=intercept)
        np.testing.assert_allclose(other, Z, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("intercept", [False, True])
def test_single_precision_withstands_awkward_columns(intercept: bool) -> None:
    X, label = labelled(3, 2, 400, 5, 4)
    Z = times(X, label, 4, intercept=intercept)
    awkward = np.concatenate([X, X[..., :2], np.zeros((2, 400, 1))], axis=-1)
    awkward *= 10.0 ** np.array([-6, 6, -3, 3, 0, 4, -4, 0])
    if intercept:
        awkward[..., -1] = 0.1
    single = times(awkward.astype(np.float32), label, 4, intercept=intercept)
    np.testing.assert_allclose(single, Z, atol=2e-3)


@penalties
@intercepts
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("max_directions", [5, 40])
def test_more_columns_than_rows_give_finite_times(
    max_directions: int, dtype: type, intercept: bool, penalty: Penalty
) -> None:
    X, label = labelled(0, 3, 20, 40, 3)
    Z = times(
        X.astype(dtype),
        label,
        3,
        penalty,
        intercept=intercept,
        max_directions=max_directions,
    )
    assert np.isfinite(Z).all()
    assert (Z >= 0).all()
    if max_directions < 20:
        assert len(np.unique(Z)) == Z.size


def test_labels_and_their_one_hot_matrix_are_the_same_targets() -> None:
    X, label = labelled(0, 2, 40, 4, 3)
    valid = np.ones(label.shape, dtype=bool)
    Q = fit_basis(X, valid, False, 4).transform(X)
    matrix = Targets.from_matrix(np.eye(3)[label])
    for penalty in (group, lasso):
        np.testing.assert_array_equal(
            selection_times(Q, matrix, valid, penalty), times(X, label, 3, penalty)
        )


def test_wrong_labels_enter_first() -> None:
    """Far blobs, one label in ten wrong: the times separate wrong from right."""
    rng = np.random.default_rng(0)
    true = np.tile(np.arange(4), 50)[None]
    X = 4 * np.eye(4)[true] + 0.3 * rng.standard_normal((1, 200, 4))
    wrong = np.arange(200)[None] % 10 == 0
    label = np.where(wrong, (true + 1) % 4, true)
    for penalty in (group, lasso):
        Z = times(X, label, 4, penalty)
        assert Z[wrong].min() > Z[~wrong].max()
