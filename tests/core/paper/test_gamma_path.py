"""The path of the mean shifts against an independent solver."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kspr.core.paper.selection_times import PENALTIES, Penalty, _reweighted, gamma_path, shrink
from kspr.core.regression import Targets, least_squares, normal_equations

from .regression_problems import (
    SHAPES,
    intercepts,
    penalties,
    problem,
    residual_maker,
    solve_densely,
)

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


@settings(max_examples=60)
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
    whole = normal_equations(Q, targets, valid)
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
    found = _reweighted(Q, targets, weight, valid, normal_equations(Q, targets, valid)).solve()
    np.testing.assert_array_equal(found, least_squares(Q, targets, weight))
