"""Noise that features cannot see: a sentence in the place of a rate."""

import numpy as np
import pytest

from kspr import KnockoffsSPR
from kspr.noise import symmetric
from kspr.selectors.cut_groups import explained


def weak(seen, n=2500, seed=0):
    """Return features that show the two classes as strongly as `seen` says, and true labels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 20))
    return X, (seen * X[:, 0] + rng.logistic(size=n) > 0).astype(int)


def test_noise_that_features_cannot_see_has_a_sentence_in_the_place_of_a_rate():
    X, y_true = weak(1.0)
    selection = KnockoffsSPR(q=0.1).fit(X, symmetric(y_true, 0.2, 0)).selection_
    assert selection.clean_mask.any()
    assert selection.cut_groups.status.tolist() == ["unseen"]
    words = " ".join(str(selection.summary()).split())
    assert "q = 0.1 was asked for, and no rate can be stated" in words
    assert "No error rate is stated: these features hardly show which labels are wrong" in words
    assert "of the labels are wrong" not in words
    assert "kspr plan" in words


def test_checked_rows_state_a_rate_whatever_features_see():
    X, y_true = weak(1.0)
    y = symmetric(y_true, 0.05, 0)
    selection = KnockoffsSPR(q=0.1).fit(X, y).selection_
    rows = selection.draw_checks(200)
    checked = selection.with_checks(rows, y_true[rows])
    assert checked.cut_groups.status.tolist() == ["checked"]
    assert "no rate can be stated" not in str(checked.summary())


@pytest.mark.parametrize("rate", [0.0, 0.05, 0.2, 0.4])
def test_features_that_suit_the_classes_keep_their_rate(digits40, rate):
    y = symmetric(digits40.y_true, rate, 0) if rate else digits40.y_true
    selection = KnockoffsSPR(q=0.05).fit(digits40.X, y).selection_
    assert "unseen" not in selection.cut_groups.status


def test_the_spread_of_chances_is_what_they_explain():
    assert explained(np.repeat([0.0, 1.0], 50)) == 1.0
    assert explained(np.full(100, 0.2)) == pytest.approx(0.0)
    # Where hardly any label is in doubt there is nothing to explain.
    assert explained(np.full(100, 0.001)) == 1.0
