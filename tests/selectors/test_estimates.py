"""Estimates of a selection with checked rows, and forecasts of the recall that checks give."""

import numpy as np
import pytest

from kspr import InputError, KnockoffsSPR, selection_quality
from kspr.selectors.estimates import MOST_CHECKS, checks_needed
from tests.selectors.simulated import by_control


@pytest.fixture(scope="module")
def fitted(digits40):
    return KnockoffsSPR(q=0.1).fit(digits40.X, digits40.y).selection_


def checked(fitted, data, n, drawn, seed=0):
    if drawn == "pool":
        rows = fitted.draw_checks(n, seed=seed)
    else:
        rows = np.random.default_rng(seed).choice(len(fitted), n, replace=False)
    return fitted.with_checks(rows, data.y_true[rows], drawn=drawn, seed=seed)


def test_estimates_say_which_rows_they_are_about(fitted, digits40):
    pool = checked(fitted, digits40, 100, "pool").estimates()
    assert pool.drawn_from == "pool"
    assert pool.n_rows < len(fitted)
    assert pool.noise_rate_elsewhere > pool.noise_rate.high
    assert "by the fit alone" in str(pool)
    everywhere = checked(fitted, digits40, 100, "all").estimates()
    assert (everywhere.n_rows, everywhere.noise_rate_elsewhere) == (len(fitted), None)
    assert "wrong labels among all rows" in str(everywhere)


def test_all_rows_checked_leave_nothing_to_estimate(fitted, digits40):
    found = checked(fitted, digits40, len(fitted), "all")
    estimates = found.estimates()
    assert estimates.noise_rate.value == pytest.approx(np.mean(~digits40.right))
    assert estimates.recall.low == estimates.recall.high == 1
    assert estimates.fsr.high == 0


def test_classes_without_checked_rows_are_unknown(fitted, digits40):
    found = checked(fitted, digits40, 20, "pool").estimates()
    assert sum(row.n_checked for row in found.per_class) <= 20
    for row in found.per_class:
        assert 0 <= row.fsr.low <= row.fsr.high <= 1
        if not row.n_checked:
            assert np.isnan(row.fsr.value)
            assert row.fsr.high > 0.9


def test_other_controls_are_estimated_from_the_checks_alone(digits40):
    fitted = by_control(q=0.1, control="paper").fit(digits40.X, digits40.y).selection_
    found = checked(fitted, digits40, 100, "pool").estimates()
    assert found.noise_rate_elsewhere is None
    assert found.noise_rate.low < found.noise_rate.high


def test_chosen_rows_estimate_nothing(fitted, digits40):
    rows = np.arange(10)
    chosen = fitted.with_checks(rows, digits40.y_true[rows], drawn="chosen")
    for selection in (fitted, chosen):
        with pytest.raises(InputError, match="needs checked rows that were drawn at random"):
            selection.estimates()


@pytest.mark.slow
@pytest.mark.parametrize("drawn", ["pool", "all"])
def test_intervals_cover_what_they_are_about(fitted, digits40, drawn):
    """In 300 draws of 100 checks, at least 93 % of the intervals of each kind hold the truth."""
    right, pool = digits40.right, fitted._ranking(0.1).pool(0.1)
    frame = pool if drawn == "pool" else np.ones(len(right), dtype=bool)
    held = np.zeros(3)
    for seed in range(300):
        told = checked(fitted, digits40, 100, drawn, seed)
        found, keep = told.estimates(), told.clean_mask
        truth = (
            np.mean(~right[frame]),
            np.sum(right & keep & frame) / np.sum(right & frame),
            np.mean(~right[keep]),
        )
        intervals = (found.noise_rate, found.recall, found.fsr)
        held += [one.low <= true <= one.high for one, true in zip(intervals, truth, strict=True)]
    assert (held >= 0.93 * 300).all()


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
    """With more checks than rows in the pool: all that are right in it, each counted once."""
    rows = fitted.draw_checks(10_000, q=0.01)
    expected = digits40.right[rows].sum() / digits40.right.sum()
    assert expected < 0.97
    assert fitted.forecast(10_000, q=0.01) == pytest.approx(expected, abs=0.03)


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
