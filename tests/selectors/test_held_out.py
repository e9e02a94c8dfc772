"""Class probabilities by models that have not seen the labels that they judge."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from kspr import InputError, ProbabilitySelector, held_out_probabilities

RNG = np.random.default_rng(0)
Y = np.repeat(["a", "b", "c"], 40)
X = RNG.standard_normal((120, 3)) + 3 * np.eye(3).repeat(40, axis=0)


class Memory(ClassifierMixin, BaseEstimator):
    """Knows the label of a row that it has seen, and nothing else."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.seen = {row.tobytes(): label for row, label in zip(X, y, strict=True)}
        return self

    def predict_proba(self, X):
        known = np.full((len(X), len(self.classes_)), 1 / len(self.classes_))
        for i, row in enumerate(X):
            if row.tobytes() in self.seen:
                known[i] = self.classes_ == self.seen[row.tobytes()]
        return known


def test_no_row_is_judged_by_a_model_that_has_seen_it_or_a_copy_of_it():
    wide = RNG.standard_normal((120, 20))
    twice = np.concatenate([wide, wide])
    shown = held_out_probabilities(Memory(), twice, np.concatenate([Y, Y]))
    np.testing.assert_allclose(shown, 1 / 3)


def test_rows_of_a_group_are_held_out_together():
    """Each row says which group it is of: a model that has seen the group knows its label."""
    groups = np.arange(120) % 40
    shown = held_out_probabilities(
        KNeighborsClassifier(1), groups[:, None] * 10.0 + RNG.random((120, 1)) / 10, groups // 14,
        groups=groups,
    )  # fmt: skip
    held = shown[np.arange(120), groups // 14]
    # The nearest of another group has the same label, but at the two borders of the classes.
    assert 0.8 < held.mean() < 1


def test_probabilities_are_in_the_order_of_the_classes_and_good_ones():
    shown = held_out_probabilities(LogisticRegression(), X, Y)
    assert shown.shape == (120, 3)
    np.testing.assert_allclose(shown.sum(axis=1), 1)
    assert (np.unique(Y)[shown.argmax(axis=1)] == Y).mean() > 0.9
    np.testing.assert_allclose(
        shown, held_out_probabilities(LogisticRegression(), sp.csr_array(X), Y)
    )


def test_a_class_of_one_row_is_judged_by_models_that_do_not_know_it():
    y = np.append(Y, "rare")
    shown = held_out_probabilities("logistic-regression", np.vstack([X, [[9, 9, 9]]]), y)
    assert shown[-1, 3] == 0
    assert (shown[:-1, 3] >= 0).all()


def test_a_model_of_scikit_learn_goes_by_its_name_and_takes_gaps():
    gaps = X.copy()
    gaps[::7, 1] = np.nan
    shown = held_out_probabilities("hist-gradient-boosting", gaps, Y, random_state=3)
    np.testing.assert_array_equal(
        shown, held_out_probabilities("HistGradientBoostingClassifier", gaps, Y, random_state=3)
    )
    assert ProbabilitySelector(q=0.2).fit(shown, Y).selection_.clean_mask.sum() > 60


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("nearest-star", "model must be a classifier of scikit-learn, such as 'hist-gradient-"),
        ("ridge", "model must have predict_proba, which RidgeClassifier"),
        ("multinomial-nb", "model='multinomial-nb' cannot be fitted: Negative values in data"),
    ],
)
def test_a_model_that_cannot_judge_is_one_sentence(model, said):
    with pytest.raises(InputError, match=said) as caught:
        held_out_probabilities(model, X, Y)
    assert "\n" not in str(caught.value)
