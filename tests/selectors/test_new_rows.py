"""New rows are judged by the fit that is there, and rows that look otherwise are warned of."""

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError

from kspr import InputError, KnockoffsSPR, selection_quality
from tests.conftest import Noisy


@pytest.fixture(scope="module")
def digits40(digits40) -> Noisy:
    """Digits in random order: those of one writer are neighbours."""
    order = np.random.default_rng(0).permutation(len(digits40.y))
    return Noisy(digits40.X[order], digits40.y[order], digits40.y_true[order])


@pytest.fixture(scope="module")
def model(digits40) -> KnockoffsSPR:
    """A fit of the first 1,000 digits."""
    return KnockoffsSPR(q=0.1).fit(digits40.X[:1000], digits40.y[:1000])


def test_the_rate_holds_on_new_rows(model, digits40):
    """798 rows: the FSR is at most q and two standard errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = model.judge(digits40.X[1000:], digits40.y[1000:])
    quality = selection_quality(found.clean_mask, digits40.right[1000:])
    assert quality.fsr < 0.1 + 2 * np.sqrt(0.1 * 0.9 / found.clean_mask.sum())
    assert quality.recall > 0.85
    assert len(found.at(0.02).clean_indices) < len(found.clean_indices)
    assert "labels kept" in str(found.summary())


def test_a_new_row_does_not_depend_on_the_rows_beside_it(model, digits40):
    rows = slice(1000, 1400)
    whole = model.judge(digits40.X[rows], digits40.y[rows])
    few = model.judge(digits40.X[1000:1003], digits40.y[1000:1003])
    np.testing.assert_array_equal(few.doubt, whole.doubt[:3])
    np.testing.assert_array_equal(few.suggested_label, whole.suggested_label[:3])


def test_the_fit_itself_does_not_change(model, digits40):
    before = model.selection_
    model.judge(digits40.X[1000:], digits40.y[1000:])
    assert model.selection_ is before


def test_rows_that_look_otherwise_are_warned_of(model, digits40):
    with pytest.warns(UserWarning, match="look otherwise"):
        model.judge(0.3 * digits40.X[1000:], digits40.y[1000:])


@pytest.mark.parametrize("control", ["people", "transition", "exchangeable"])
def test_every_control_judges_new_rows(digits40, control):
    X, y = digits40.X, digits40.y
    model = KnockoffsSPR(q=0.1, control=control, n_splits=2).fit(X[:1000], y[:1000])
    assert model.judge(X[1000:], y[1000:]).clean_mask.any()


def test_a_transformer_of_ones_own_is_applied(digits40):
    X, y = digits40.X, digits40.y
    model = KnockoffsSPR(q=0.1, reduction=PCA(20, random_state=0).fit(X[:1000]))
    found = model.fit(X[:1000], y[:1000]).judge(X[1000:], y[1000:])
    assert selection_quality(found.clean_mask, digits40.right[1000:]).recall > 0.7


def test_what_cannot_be_judged_is_one_sentence(model, digits40):
    X, y = digits40.X[1000:], digits40.y[1000:]
    with pytest.raises(InputError, match="got 11 in row 0"):
        model.judge(X, np.full(len(X), 11))
    with pytest.raises(InputError, match="X has 797 rows but y has 796 labels"):
        model.judge(X, y[1:])
    with pytest.raises(ValueError, match="X has 63 features"):
        model.judge(X[:, 1:], y)
    with pytest.raises(InputError, match="takes dense rows"):
        model.judge(csr_array(X), y)
    with pytest.raises(NotFittedError):
        KnockoffsSPR().judge(X, y)


def test_a_row_of_the_fit_is_judged_by_the_half_that_has_not_seen_it(model, digits40):
    """A second export that has the old rows, too, must not look better than it is."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = model.judge(digits40.X[::-1], digits40.y[::-1])
    old = again.doubt[::-1][:1000]
    np.testing.assert_allclose(old, model.selection_.doubt, atol=1e-6)
