"""Random knockoff labels, the closed form of step ii, and the statistics."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import chisquare
from sklearn.linear_model import Lasso, MultiTaskLasso

from kspr.core.paper.knockoffs import (
    STATISTICS,
    asymmetric,
    penalised_times,
    random_labels,
    symmetric_max,
    symmetric_min,
)
from kspr.core.paper.selection_times import PENALTIES, Penalty, group, shrink
from kspr.core.regression import all_times

penalties = pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES.keys())
almost_one = float(np.nextafter(1, 0))


@given(
    c=st.integers(2, 300),
    seed=st.integers(0, 2**32 - 1),
    draw=st.one_of(st.floats(0, almost_one), st.sampled_from([0.0, almost_one])),
    dtype=st.sampled_from([np.int64, np.int32, np.uint16]),
)
def test_random_knockoff_is_another_class(c: int, seed: int, draw: float, dtype: type) -> None:
    labels = np.random.default_rng(seed).integers(0, c, (3, 2, 40)).astype(dtype)
    knockoff = random_labels(labels, c, np.full(labels.shape, draw))
    assert knockoff.shape == labels.shape
    assert (knockoff != labels).all()
    assert knockoff.min() >= 0
    assert knockoff.max() < c


def test_random_knockoffs_are_uniform_on_the_other_classes() -> None:
    """Five chi-square tests at 0.001 each: a fair generator fails one run in 200. Seeded."""
    labels = np.repeat(np.arange(5), 4000)
    knockoff = random_labels(labels, 5, np.random.default_rng(7).random(len(labels)))
    for k in range(5):
        counts = np.bincount(knockoff[labels == k], minlength=5)
        assert counts[k] == 0
        assert chisquare(np.delete(counts, k)).pvalue > 0.001


# --- Step ii ----------------------------------------------------------------------------------


@penalties
@pytest.mark.parametrize("seed", range(3))
def test_closed_form_is_where_the_independent_solvers_path_leaves_zero(
    seed: int, penalty: Penalty
) -> None:
    """The design of step ii is the identity; just below Z_j row j is active, just above not."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 4, 12)
    prediction = 0.25 + 0.3 * rng.standard_normal((12, 4))
    target = np.eye(4)[label] - prediction
    Z = penalised_times(prediction[None], label[None], penalty)[0]

    def active(lam: float) -> np.ndarray:
        options = {"alpha": lam / 12, "fit_intercept": False, "tol": 1e-12}
        if penalty is group:
            return (MultiTaskLasso(**options).fit(np.eye(12), target).coef_.T != 0).any(axis=1)
        fits = [Lasso(**options).fit(np.eye(12), column).coef_ for column in target.T]
        return (np.column_stack(fits) != 0).any(axis=1)

    for j, time in enumerate(Z):
        assert active(0.9999 * time)[j]
        assert not active(1.0001 * time)[j]
        np.testing.assert_array_equal(active(0.9999 * time), 0.9999 * time < Z)


@penalties
@settings(max_examples=50)
@given(seed=st.integers(0, 2**32 - 1))
def test_closed_form_is_the_end_of_the_soft_threshold_path(penalty: Penalty, seed: int) -> None:
    rng = np.random.default_rng(seed)
    label, prediction = rng.integers(0, 3, (2, 9)), rng.standard_normal((2, 9, 3))
    Z = penalised_times(prediction, label, penalty)
    residual = np.eye(3)[label] - prediction
    for lam in np.linspace(0, 3, 40):
        np.testing.assert_array_equal(shrink(residual, lam, penalty).any(axis=-1), lam < Z)


def test_closed_form_is_double_even_for_single_predictions() -> None:
    """Predictions that differ in the last bit of a float32 do not tie."""
    start = np.float32(0.1)
    prediction = np.array([[start, 0], [np.nextafter(start, np.float32(1)), 0]], dtype=np.float32)
    Z = penalised_times(prediction[None], np.ones((1, 2), dtype=np.int64), group)
    assert Z.dtype == np.float64
    assert Z[0, 0] != Z[0, 1]


# --- Statistics -------------------------------------------------------------------------------

times = arrays(np.float64, 30, elements=st.sampled_from([0.1, 0.5, 0.7, 1.0, 1.3]))


@given(Z=times, Z_tilde=times)
def test_statistics_are_defined_as_in_the_paper(Z: np.ndarray, Z_tilde: np.ndarray) -> None:
    for z, z_tilde, *W in zip(
        Z,
        Z_tilde,
        asymmetric(Z, Z_tilde),
        symmetric_max(Z, Z_tilde),
        symmetric_min(Z, Z_tilde),
        strict=True,
    ):
        sign = int(z > z_tilde) - int(z < z_tilde)
        assert [z * sign, max(z, z_tilde) * sign, min(z, z_tilde) * sign] == W


@given(Z=times, Z_tilde=times)
def test_statistics_are_negative_exactly_where_the_label_is_ahead(
    Z: np.ndarray, Z_tilde: np.ndarray
) -> None:
    """A label that is selected later than its knockoff, ``Z < Z~``, is the better one."""
    for statistic in STATISTICS.values():
        W = statistic(Z, Z_tilde)
        np.testing.assert_array_equal(W < 0, Z_tilde > Z)
        np.testing.assert_array_equal(W > 0, Z_tilde < Z)


@given(Z=times, Z_tilde=times)
def test_symmetric_statistics_change_sign_when_label_and_knockoff_swap(
    Z: np.ndarray, Z_tilde: np.ndarray
) -> None:
    for statistic in (symmetric_max, symmetric_min):
        np.testing.assert_array_equal(statistic(Z_tilde, Z), -statistic(Z, Z_tilde))


def test_times_of_all_classes_are_those_of_each_as_the_label() -> None:
    prediction = np.random.default_rng(0).random((20, 4))
    for k in range(4):
        alone = penalised_times(prediction, np.full(20, k), group)
        np.testing.assert_array_equal(all_times(prediction)[:, k], alone)
