"""Forecasts of what checks keep, against what they keep."""

import numpy as np
import pytest

from kspr import InputError, KnockoffsSPR


@pytest.fixture(scope="module")
def fitted(digits40):
    return KnockoffsSPR(q=0.1, cut="pooled").fit(digits40.X, digits40.y).selection_


@pytest.mark.parametrize("n", [50, 200])
def test_a_forecast_is_near_what_checks_keep(fitted, digits40, n):
    """Symmetric noise, which the fit describes: within 8 points of the mean of ten draws."""
    kept = []
    for seed in range(10):
        rows = fitted.draw(n, seed=seed)
        kept.append(fitted.with_checks(rows, digits40.y_true[rows], seed=seed).clean_mask.mean())
    assert fitted.forecast(n) == pytest.approx(np.mean(kept), abs=0.08)


def test_answers_correct_a_forecast(fitted, digits40):
    """If most checked labels are wrong where the fit expected few, little can be kept."""
    rows = fitted.draw(60)
    worse = digits40.y_true[rows].copy()
    worse[:40] = -1
    assert fitted.with_checks(rows, worse).forecast(200) < 0.5 * fitted.forecast(200)


def test_a_confidence_takes_more_checks_than_a_mean(fitted):
    mean, sure = (fitted.forecast(60, guarantee=g) for g in ("mean", "confidence"))
    assert sure < mean


def test_a_control_without_chances_has_no_forecast(digits40):
    selection = KnockoffsSPR(control="paper").fit(digits40.X, digits40.y).selection_
    with pytest.raises(InputError, match="A forecast needs the chance"):
        selection.forecast(100)
