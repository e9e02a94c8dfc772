"""A fit in the features themselves gives what it gave in its coordinates."""

import numpy as np
import pytest

from kspr.core.linear_fit import LinearFit
from kspr.core.regression import Basis, fit_basis


def a_fit(intercept: bool, dtype: type) -> tuple[Basis, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((60, 5)) * [1, 10, 0.1, 3, 1] + 7).astype(dtype)
    basis = fit_basis(X[None], np.ones((1, 60), dtype=bool), intercept, 5)
    beta = rng.standard_normal((2, 5 + intercept, 3)).astype(dtype)
    return basis, beta, X


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("intercept", [True, False])
def test_fitted_values_are_those_of_the_coordinates(intercept, dtype):
    basis, beta, X = a_fit(intercept, dtype)
    half = np.arange(60) % 2
    found = LinearFit.in_features(basis, beta).predict(X, half)
    Q = basis.transform(X[None])[0]
    expected = np.where(half[:, None] == 0, Q @ beta[0], Q @ beta[1])
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 if dtype == np.float32 else 0)


def test_a_block_may_lie_in_one_half():
    basis, beta, X = a_fit(True, np.float64)
    fit, half = LinearFit.in_features(basis, beta), np.arange(60) % 2
    whole = fit.predict(X, half)
    for side in (0, 1):
        alone = fit.predict(X[half == side], half[half == side])
        np.testing.assert_allclose(alone, whole[half == side], rtol=1e-12)
