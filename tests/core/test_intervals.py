"""Intervals are those of their inventors, as scipy has them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from scipy.stats import fisher_exact as scipys_test

from kspr.core.shares import (
    clopper_pearson_bounds,
    clopper_pearson_interval,
    fisher_exact,
)
from kspr.core.transition import wilson_interval


@given(n=st.integers(1, 300), share=st.floats(0, 1))
def test_wilsons_interval_is_scipys(n: int, share: float) -> None:
    hit = round(share * n)
    low, high = wilson_interval(np.array([hit]), np.array([n]), z=1.959963984540054)
    expected = binomtest(hit, n).proportion_ci(0.95, method="wilson")
    assert (low[0], high[0]) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_wilsons_interval_of_nothing_is_everything() -> None:
    np.testing.assert_allclose(wilson_interval(np.zeros(1), np.zeros(1)), [[0], [1]], atol=0.21)


@given(n=st.integers(1, 500), share=st.floats(0, 1), confidence=st.floats(0.6, 0.999))
def test_bounds_are_clopper_and_pearsons(n: int, share: float, confidence: float) -> None:
    hit = round(share * n)
    found = clopper_pearson_bounds(hit, n, confidence)
    for side, alternative in ((1, "less"), (0, "greater")):
        test = binomtest(hit, n, alternative=alternative)
        expected = test.proportion_ci(confidence, method="exact")
        assert found[side] == pytest.approx((expected.low, expected.high)[side], abs=1e-8)


def test_nothing_checked_bounds_nothing() -> None:
    assert clopper_pearson_bounds(0, 0, 0.95) == (0.0, 1.0)


@given(n=st.integers(1, 300), share=st.floats(0, 1), confidence=st.floats(0.6, 0.999))
def test_the_two_sided_interval_is_scipys(n: int, share: float, confidence: float) -> None:
    hit = round(share * n)
    expected = binomtest(hit, n).proportion_ci(confidence, method="exact")
    found = clopper_pearson_interval(hit, n, confidence)
    assert found == pytest.approx((expected.low, expected.high), abs=1e-8)


@given(*[st.integers(0, 40)] * 4)
def test_the_test_of_two_shares_is_scipys(hit: int, more: int, before: int, more_before: int):
    found = fisher_exact(hit, hit + more, before, before + more_before)
    table = [[hit, more], [before, more_before]]
    assert found == pytest.approx(scipys_test(table, alternative="greater").pvalue, abs=1e-9)
