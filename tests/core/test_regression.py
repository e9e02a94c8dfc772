"""Least squares against NumPy's own, and the basis of the features."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kspr.core.regression import Targets, fit_basis, least_squares

from .paper.regression_problems import residual_maker

# --- Least squares and its basis --------------------------------------------------------------


@settings(max_examples=30)
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


@settings(max_examples=30)
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
