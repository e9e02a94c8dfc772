"""Estimates of a selection with checked rows: what they are about, and that they hold."""

import numpy as np
import pytest

from kspr import KnockoffsSPR
from kspr.errors import InputError
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
    right, pool = digits40.right, fitted._ranking().pool(0.1)
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
