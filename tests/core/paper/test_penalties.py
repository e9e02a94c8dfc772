"""Penalties: magnitudes, and the soft threshold that follows from them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kspr.core.paper.selection_times import PENALTIES, group, lasso, shrink

penalties = pytest.mark.parametrize("penalty", PENALTIES.values())
problems = {"seed": st.integers(0, 999), "lam": st.floats(0.01, 3)}


def residuals(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((2, 6, 3))


@given(seed=st.integers(0, 999))
def test_magnitudes_are_the_norms_of_rows_or_entries(seed: int) -> None:
    R = residuals(seed)
    np.testing.assert_allclose(group(R)[..., 0], np.linalg.norm(R, axis=-1))
    np.testing.assert_array_equal(lasso(R), np.abs(R))


@penalties
@given(**problems)
def test_a_shift_is_zero_exactly_up_to_the_level(penalty, seed: int, lam: float) -> None:
    R = residuals(seed)
    shift = shrink(R, lam, penalty)
    np.testing.assert_array_equal(shift == 0, np.broadcast_to(penalty(R) <= lam, R.shape))


@penalties
@given(**problems)
def test_what_remains_of_a_residual_is_the_level(penalty, seed: int, lam: float) -> None:
    R = residuals(seed)
    rest = penalty(R - shrink(R, lam, penalty))
    np.testing.assert_allclose(rest, np.minimum(penalty(R), lam), atol=1e-12)


@penalties
@given(**problems)
def test_a_shift_minimises_its_problem(penalty, seed: int, lam: float) -> None:
    """No random step nearby has a smaller ``1/2 |R - gamma|^2 + lam sum |gamma|``."""
    R = residuals(seed)

    def loss(gamma: np.ndarray) -> float:
        return float(0.5 * np.sum((R - gamma) ** 2) + lam * np.sum(penalty(gamma)))

    best = shrink(R, lam, penalty)
    rng = np.random.default_rng(seed)
    for size in (1e-3, 0.1, 1.0):
        assert loss(best + size * rng.standard_normal(R.shape)) >= loss(best) - 1e-12
