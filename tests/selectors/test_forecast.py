"""Forecasts of the recall that checks give, against the recall that they give."""

import numpy as np
import pytest

from kspr import InputError, KnockoffsSPR, selection_quality
from kspr.selectors.estimates import MOST_CHECKS, checks_needed
from tests.selectors.simulated import by_control


@pytest.fixture(scope="module")
def fitted(digits40):
    return KnockoffsSPR(q=0.1, cut="pooled").fit(digits40.X, digits40.y).selection_


@pytest.mark.parametrize("n", [50, 200])
def test_a_forecast_is_near_what_checks_keep(fitted, digits40, n):
    """Symmetric noise, which the fit describes: within 8 points of the mean of ten draws."""
    kept = []
    for seed in range(10):
        rows = fitted.draw_checks(n, seed=seed)
        told = fitted.with_checks(rows, digits40.y_true[rows], seed=seed)
        kept.append(selection_quality(told.clean_mask, digits40.right).recall)
    assert fitted.forecast(n) == pytest.approx(np.mean(kept), abs=0.08)


def test_checking_every_row_keeps_the_right_ones(fitted, digits40):
    """With more checks than rows in the pool: all that are right in it."""
    rows = fitted.draw_checks(10_000)
    expected = digits40.right[rows].sum() / digits40.right.sum()
    assert fitted.forecast(10_000) == pytest.approx(expected, abs=0.05)


def test_answers_correct_a_forecast(fitted, digits40):
    """If most checked labels are wrong where the fit expected few, little can be kept."""
    rows = fitted.draw_checks(60)
    worse = digits40.y_true[rows].copy()
    worse[:40] = -1
    assert fitted.with_checks(rows, worse).forecast(200) < 0.5 * fitted.forecast(200)


def test_a_confidence_takes_more_checks_than_a_mean(fitted):
    mean, sure = (fitted.forecast(60, guarantee=g) for g in ("mean", "confidence"))
    assert sure < mean


def test_a_control_without_chances_has_no_forecast(digits40):
    selection = by_control(control="paper").fit(digits40.X, digits40.y).selection_
    with pytest.raises(InputError, match="A forecast needs the chance"):
        selection.forecast(100)


def test_the_number_of_checks_that_is_needed_keeps_most_of_what_can_be_kept(digits40):
    selection = KnockoffsSPR(q=0.05).fit(digits40.X, digits40.y).selection_
    n = selection.checks_needed()
    assert 20 <= n <= 300
    assert selection.forecast(n) > 0.8
    assert selection.checks_needed(q=0.2) <= n
    assert selection.checks_needed(guarantee="confidence") > n


def test_what_no_number_of_checks_reaches_is_none(digits40):
    selection = KnockoffsSPR(q=0.05).fit(digits40.X, digits40.y).selection_
    assert selection.checks_needed(q=1e-9) is None


def test_checks_that_were_not_enough_are_not_named_again(digits40):
    selection = KnockoffsSPR(q=0.05).fit(digits40.X, digits40.y).selection_
    n = checks_needed(selection, 0.05, "mean", 0.95)
    assert n == selection.checks_needed()
    assert checks_needed(selection, 0.05, "mean", 0.95, done=n - 1) == n
    assert checks_needed(selection, 0.05, "mean", 0.95, done=n) > n
    assert checks_needed(selection, 0.05, "mean", 0.95, done=MOST_CHECKS) is None
