"""Selecting by the probabilities of a user's own model, and which column is which class."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier

from kspr import InputError, ProbabilitySelector, Selection
from kspr.noise import symmetric
from kspr.selectors.probability import order_columns, read_probabilities

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
    assert "go wrong by their true class" in found.summary().assumption
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
        ({"control": "paper"}, "control must be one of 'people', 'transition', 'exchangeable'"),
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


Y = np.array(["ant", "bee", "cow"] * 4)
P = np.eye(3)[[0, 1, 2] * 4] * 0.7 + 0.1


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("prefix", ["", "p_", "prob."])
def test_columns_of_a_data_frame_are_known_by_their_names(frame, prefix):
    columns = {f"{prefix}{name}": P[:, k] for name, k in (("cow", 2), ("ant", 0), ("bee", 1))}
    found, labels = read_probabilities(frame(columns), Y, None, 2)
    assert labels.classes.tolist() == ["ant", "bee", "cow"]
    assert np.allclose(found, P)


def test_a_shared_beginning_of_class_names_is_no_prefix():
    assert order_columns(["p_cat", "p_car"], np.array(["car", "cat"])).tolist() == [1, 0]


def test_numbers_name_classes_that_are_numbers():
    assert order_columns(["p_2", "p_1"], np.array([1, 2])).tolist() == [1, 0]


def test_numbers_from_zero_stand_for_the_sorted_classes():
    assert order_columns(["p_0", "p_1"], np.array(["car", "cat"])).tolist() == [0, 1]
    assert order_columns([0, 1], np.array(["car", "cat"])).tolist() == [0, 1]


@pytest.mark.parametrize(
    "names", [["p_ant", "p_bee", "p_fox"], ["p_1", "p_2", "p_3"], ["ant", "ant", "bee"]]
)
def test_columns_that_do_not_name_the_classes_are_refused(names):
    with pytest.raises(InputError, match=r"do not name the class '(ant|cow)'"):
        order_columns(names, np.array(["ant", "bee", "cow"]))


def test_classes_say_which_column_is_which():
    found, _ = read_probabilities(P[:, [2, 0, 1]], Y, ["cow", "ant", "bee"], 2)
    assert np.allclose(found, P)


def test_columns_of_classes_that_no_label_has_are_left_out():
    wide = np.column_stack([0.5 * P, np.full(12, 0.5)])
    wide[0] = [0, 0, 0, 1]
    found, labels = read_probabilities(wide, Y, ["ant", "bee", "cow", "fox"], 2)
    assert len(labels.classes) == 3
    assert np.allclose(found[1:], P[1:])
    assert np.allclose(found[0], 1 / 3)


def test_half_precision_sums_to_one():
    assert np.allclose(read_probabilities(P.astype(np.float16), Y, None, 2)[0].sum(axis=1), 1)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (P[0], "must have two dimensions"),
        (P.astype(str), "must hold numbers"),
        (np.empty((0, 3)), "has no rows"),
        (np.where(np.arange(12)[:, None] == 4, np.nan, P), "NaN or inf in row 4"),
        (np.log(P), "log-probabilities. Pass np.exp"),
        (10 * P - 5, r"must not be negative, got -4 in row 0. Logits"),
        (100 * P, "percentages. Divide by 100"),
        (P * np.where(np.arange(12) == 7, 0.5, 1)[:, None], "row 7 sums to 0.5"),
        (P + 0.2, "outputs of one sigmoid per class"),
        (P[:, :2] / P[:, :2].sum(axis=1, keepdims=True), "2 columns but y has 3 classes"),
        (P[:10], "10 rows but y has 12 labels"),
    ],
)
def test_what_is_no_probability_is_refused_in_one_sentence(values, message):
    with pytest.raises(InputError, match=message):
        read_probabilities(values, Y, None, 2)


def test_classes_must_name_every_column():
    with pytest.raises(InputError, match="2 labels for 3 columns"):
        read_probabilities(P, Y, ["ant", "bee"], 2)
    with pytest.raises(InputError, match="do not name the class 'cow'"):
        read_probabilities(P, Y, ["ant", "bee", "fox"], 2)
