"""Shares from checks and a model: right without the model, surer with a good one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kspr.core.shares import (
    Estimate,
    assisted_share,
    clopper_pearson_interval,
    combined,
    plain_share,
)


def test_checks_alone_have_the_exact_interval():
    found = plain_share(3, 50)
    assert (found.value, found.low, found.high) == (0.06, *clopper_pearson_interval(3, 50))
    assert np.isnan(plain_share(0, 0).value)
    assert (plain_share(0, 0).low, plain_share(0, 0).high) == (0.0, 1.0)


@pytest.mark.parametrize("n_wrong", [0, 60])
def test_where_all_checks_agree_the_model_has_no_say(n_wrong):
    wrong = np.arange(60) < n_wrong
    chance = np.random.default_rng(0).random(60)
    assert assisted_share(wrong, chance, 0.9) == plain_share(n_wrong, 60)


def test_a_model_that_contradicts_the_checks_is_left_out():
    wrong = np.arange(100) < 30
    assert assisted_share(wrong, np.where(wrong, 0.1, 0.8), 0.5) == plain_share(30, 100)


@given(st.integers(0, 2**32 - 1), st.integers(5, 200), st.floats(0.01, 0.99))
def test_an_interval_holds_its_value_and_is_no_wider_than_a_little_more_than_that_of_the_checks(
    seed, n, rate
):
    rng = np.random.default_rng(seed)
    wrong, chance = rng.random(n) < rate, rng.random(n)
    found, plain = assisted_share(wrong, chance, 0.5), plain_share(int(wrong.sum()), n)
    assert 0 <= found.low <= found.value <= found.high <= 1
    # Its share may be nearer to one half, where intervals are wider.
    assert found.high - found.low <= 1.6 * (plain.high - plain.low)


def test_all_rows_checked_give_their_own_share():
    rng = np.random.default_rng(0)
    wrong, chance = rng.random(300) < 0.2, rng.random(300)
    assert assisted_share(wrong, chance, float(chance.mean())).value == pytest.approx(wrong.mean())


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.3])
@pytest.mark.parametrize("use", [0.0, 0.5, 0.9])
def test_intervals_cover_whatever_the_model_is_worth(rate, use):
    """In 1,000 draws of 100 checks, at least 93 % of the intervals hold the true share."""
    rng = np.random.default_rng([1, int(100 * rate), int(10 * use)])
    wrong = rng.random(20_000) < rate
    chance = np.clip(use * wrong * rng.random(20_000) + (1 - use) * 0.2 * rng.random(20_000), 0, 1)
    held = 0
    for _ in range(1000):
        rows = rng.choice(20_000, 100, replace=False)
        found = assisted_share(wrong[rows], chance[rows], float(chance.mean()))
        held += found.low <= wrong.mean() <= found.high
    assert held >= 930


def test_a_good_model_narrows_the_interval():
    rng = np.random.default_rng(3)
    wrong = rng.random(100) < 0.3
    good = assisted_share(wrong, np.where(wrong, 0.8, 0.1) + 0.1 * rng.random(100), 0.3)
    plain = plain_share(int(wrong.sum()), 100)
    assert good.high - good.low < 0.8 * (plain.high - plain.low)


def test_combined_estimates_are_as_sure_as_the_less_sure_one_at_least():
    first, second = Estimate(0.4, 0.3, 0.5), Estimate(0.1, 0.05, 0.2)
    found = combined(lambda a, b: a + b, first, second)
    assert found.value == pytest.approx(0.5)
    assert found.high - found.value == pytest.approx(np.hypot(0.1, 0.1))
    assert found.value - found.low == pytest.approx(np.hypot(0.1, 0.05))
