"""Selecting by the probabilities of a user's own model."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier

from kspr import InputError, ProbabilitySelector, Selection
from kspr.noise import symmetric

FOLDS = StratifiedKFold(5, shuffle=True, random_state=0)


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return held-out probabilities of a neighbour model, labels with Sym. 30 %, true labels."""
    X, truth = load_digits(return_X_y=True)
    y = symmetric(truth, 0.3, 0)
    model = KNeighborsClassifier(15)
    return cross_val_predict(model, X, y, cv=FOLDS, method="predict_proba"), y, truth


@pytest.mark.parametrize("cut", ["pooled", "per_class"])
@pytest.mark.parametrize("control", ["transition", "exchangeable"])
def test_kept_labels_are_right_at_the_rate_asked_for(digits, control, cut):
    P, y, truth = digits
    selection = ProbabilitySelector(q=0.1, control=control, cut=cut).fit(P, y).selection_
    kept = selection.clean_mask
    assert np.mean((y != truth)[kept]) < 0.12
    if control == "transition":
        assert np.mean(kept[y == truth]) > 0.9
        assert selection.noise.rate == pytest.approx(0.3, abs=0.06)
    assert np.mean(selection.suggested_label == truth) > 0.9


def test_every_level_follows_from_one_fit(digits):
    P, y, _ = digits
    loose = ProbabilitySelector(q=0.2).fit(P, y).selection_
    assert np.array_equal(
        loose.at(0.05).clean_mask, ProbabilitySelector(q=0.05).fit(P, y).selection_.clean_mask
    )


def test_the_level_of_the_best_f1_is_found(digits):
    P, y, truth = digits
    kept = ProbabilitySelector(level="f1").fit(P, y).selection_.clean_mask
    precision, recall = np.mean((y == truth)[kept]), np.mean(kept[y == truth])
    assert 2 * precision * recall / (precision + recall) > 0.95


def test_a_selection_is_saved_and_read_again(digits, tmp_path):
    P, y, _ = digits
    selection = ProbabilitySelector().fit(P, y).selection_
    found = Selection.load(selection.save(tmp_path / "run"))
    assert np.array_equal(found.clean_mask, selection.clean_mask)
    assert found.manifest.method == "ProbabilitySelector"
    assert "depends on the true class only" in found.summary().assumption
    assert found.to_frame().shape[0] == len(y)


def test_it_is_a_selector_like_the_others(digits):
    P, y, _ = digits
    model = clone(ProbabilitySelector(q=0.1))
    marks = model.fit_predict(P, y)
    assert np.array_equal(marks == 1, model.selection_.clean_mask)
    rows, labels = model.fit_resample(pd.DataFrame(P), y)
    assert len(rows) == len(labels) == (marks == 1).sum()
    assert model.classes_.tolist() == list(range(10))


def test_classes_are_passed_on(digits):
    P, y, _ = digits
    turned = ProbabilitySelector().fit(P[:, ::-1], y, classes=np.arange(10)[::-1])
    plain = ProbabilitySelector().fit(P, y)
    assert np.array_equal(turned.selection_.clean_mask, plain.selection_.clean_mask)


def test_probabilities_of_a_model_that_saw_the_labels_are_warned_of(digits):
    _, y, _ = digits
    X = load_digits().data
    forest = RandomForestClassifier(20, random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="the model was trained on these labels"):
        ProbabilitySelector().fit(forest.predict_proba(X), y)


@pytest.mark.filterwarnings("error")
def test_held_out_probabilities_are_not_warned_of(digits):
    P, y, _ = digits
    ProbabilitySelector().fit(P, y)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"q": 5}, "q must lie in"),
        ({"control": "paper"}, "control must be one of 'transition', 'exchangeable'"),
        ({"cut": "none"}, "cut must be one of"),
        ({"level": "smallest"}, "level must be one of"),
        ({"level": "f1", "control": "exchangeable"}, "level='f1' goes with"),
        ({"min_class_size": 0}, "min_class_size must be"),
    ],
)
def test_bad_parameters_are_refused(digits, choice, message):
    P, y, _ = digits
    with pytest.raises(InputError, match=message):
        ProbabilitySelector(**choice).fit(P, y)


def test_two_classes_are_too_few_for_exchangeable():
    P = np.tile([[0.9, 0.1], [0.2, 0.8]], (20, 1))
    with pytest.raises(InputError, match="at least three classes"):
        ProbabilitySelector(control="exchangeable").fit(P, np.arange(40) % 2)


@pytest.mark.parametrize("control", ["transition", "exchangeable"])
def test_checked_rows_move_the_cut_of_a_selection_by_probabilities(digits, control):
    P, y, truth = digits
    selection = ProbabilitySelector(q=0.1, control=control).fit(P, y).selection_
    rows = selection.draw_checks(100)
    checked = selection.with_checks(rows, truth[rows])
    kept = checked.clean_mask
    assert set(checked.cut_groups.status) == {"checked"}
    assert np.array_equal(kept[rows], (y == truth)[rows])
    assert 0.5 * np.sum(y == truth) < kept.sum() < len(y)
    assert np.mean((y != truth)[kept]) < 0.15
    assert "checked rows were drawn at random" in checked.assumption


def test_suggestions_have_a_chance_under_the_control_that_estimates_it(digits):
    P, y, truth = digits
    selection = ProbabilitySelector(q=0.1).fit(P, y).selection_
    found = selection.relabel()
    assert np.mean(found.label == truth) > np.mean(y == truth) + 0.2
    other = ProbabilitySelector(q=0.1, control="exchangeable").fit(P, y).selection_
    assert other.suggestion_probability is None
    with pytest.raises(InputError, match=r"goes with control='transition'. Fit with it"):
        other.relabel()
