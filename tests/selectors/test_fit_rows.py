"""Which rows are fitted: all of them, or a random part while all are judged."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from kspr import KnockoffsSPR
from kspr.noise import symmetric
from kspr.selectors import _passes


@pytest.fixture(scope="module")
def noisy():
    X, y = load_digits(return_X_y=True)
    return X, symmetric(y, 0.3, 0), y


def levels(noisy, **choices) -> np.ndarray:
    return KnockoffsSPR(q=0.1, **choices).fit(*noisy[:2]).selection_.q_value


def test_small_data_is_fitted_whole(noisy):
    np.testing.assert_array_equal(levels(noisy), levels(noisy, fit_rows=len(noisy[1])))


@pytest.mark.parametrize("reduction", ["auto", 20, None])
def test_a_part_is_fitted_and_all_rows_are_judged(noisy, reduction):
    """The third of the rows that is fitted keeps nearly as much at the same rate."""
    X, y, truth = noisy
    for choices, least in (({}, 0.9), ({"fit_rows": 600}, 0.8)):
        model = KnockoffsSPR(q=0.1, reduction=reduction, **choices).fit(X, y)
        clean = model.selection_.clean_mask
        assert np.mean(y[clean] != truth[clean]) < 0.13
        assert clean[y == truth].mean() > least


def test_more_rows_than_memory_holds_are_fitted_in_part(noisy, monkeypatch):
    monkeypatch.setattr(_passes, "_SCORE_BYTES", 4 * 64 * 600)
    monkeypatch.setattr(_passes, "_ROWS_PER_DIMENSION", 1)
    np.testing.assert_array_equal(levels(noisy), levels(noisy, fit_rows=600))
    monkeypatch.setattr(_passes, "_ROWS_PER_DIMENSION", 1000)
    np.testing.assert_array_equal(levels(noisy), levels(noisy, fit_rows=len(noisy[1])))


def test_rare_classes_are_fitted_too():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), [3000, 300, 20, 2])
    X = rng.standard_normal((len(y), 8)) + 6 * np.eye(8)[y]
    clean = KnockoffsSPR(q=0.1, fit_rows=200).fit(X, y).selection_.clean_mask
    assert clean[y == 2].mean() > 0.8
