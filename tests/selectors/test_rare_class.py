"""A rare class with many wrong labels is cut by itself, though the rate over all classes holds."""

from dataclasses import replace

import numpy as np
import pytest

from kspr import KnockoffsSPR, ProbabilitySelector, Selection
from kspr.selectors.cut_groups import cut_apart


@pytest.fixture(scope="module")
def fraud():
    """Features, given and true labels of 6,000 rows: of the 60 of a rare class half are wrong."""
    rng = np.random.default_rng(0)
    y_true = np.repeat([0, 1, 2], [3000, 2970, 30])
    X = rng.normal(size=(6000, 16)) + 4 * np.eye(16)[y_true]
    y = y_true.copy()
    y[rng.choice(5970, 30, replace=False)] = 2
    names = np.array(["paid", "late", "fraud"])
    return X, names[y], names[y_true]


@pytest.fixture(scope="module")
def selection(fraud):
    return KnockoffsSPR(q=0.05).fit(*fraud[:2]).selection_


def test_a_rare_class_of_which_many_labels_are_wrong_is_cut_by_itself(fraud, selection):
    _, y, y_true = fraud
    kept, rare = selection.clean_mask, y == "fraud"
    assert (kept & rare & (y == y_true)).sum() >= 25
    assert (kept & rare & (y != y_true)).sum() <= 5
    assert (y != y_true)[kept].mean() <= 0.05
    # Nothing changes for the others.
    assert kept[~rare].all()
    groups = selection.cut_groups
    assert groups.class_code.tolist() == [-1, 0]
    assert groups.n.tolist() == [5940, 60]
    assert groups.estimated_fsr[1] <= 0.05


def test_the_summary_names_a_class_that_is_cut_by_itself(selection):
    text = str(selection.summary())
    assert "Cut by itself in 1 of 3 classes" in text
    assert f"fraud ({selection.cut_groups.n_kept[1]} of 60 rows kept)" in text


def test_a_class_that_is_cut_by_itself_stays_so(selection, tmp_path):
    loose = selection.at(0.2)
    rare = selection.label == "fraud"
    assert selection.clean_mask[rare].sum() <= loose.clean_mask[rare].sum() < 60
    curve = loose.curve()
    at = np.searchsorted(curve.q, 0.2, side="right") - 1
    assert curve.n_kept[at] == loose.clean_mask.sum()
    loaded = Selection.load(selection.save(tmp_path / "run"))
    assert (loaded.at(0.2).clean_mask == loose.clean_mask).all()


def test_answers_about_all_rows_do_not_bring_the_suspects_of_a_rare_class_back(fraud, selection):
    _, y, y_true = fraud
    rows = selection.draw_checks(100)
    checked = selection.with_checks(rows, y_true[rows])
    rare = y == "fraud"
    assert checked.clean_mask[~rare].mean() > 0.99
    assert (checked.clean_mask & rare & (y != y_true)).sum() <= 5


def test_a_class_that_only_another_level_puts_far_above_it_is_named(fraud):
    loose = KnockoffsSPR(q=0.3).fit(*fraud[:2]).selection_
    assert len(loose.cut_groups) == 1
    assert "A rate far above q in 1 of 3 classes (60 kept rows): fraud" in str(
        loose.at(0.05).summary()
    )


def test_probabilities_cut_it_by_itself_too(fraud):
    X, y, y_true = fraud
    centres = np.stack([X[y_true == name].mean(axis=0) for name in np.unique(y)])
    odds = -((X[:, None] - centres) ** 2).sum(axis=2) / 2
    shown = np.exp(odds - odds.max(axis=1, keepdims=True))
    selection = ProbabilitySelector(q=0.05).fit(shown / shown.sum(axis=1)[:, None], y).selection_
    assert (selection.clean_mask & (y == "fraud") & (y != y_true)).sum() <= 5


def test_a_cut_per_class_names_none(fraud):
    selection = KnockoffsSPR(q=0.05, cut="per_class").fit(*fraud[:2]).selection_
    assert "uneven" not in [notice.status for notice in selection.summary().notices]
    assert selection.clean_mask[fraud[1] == "fraud"].sum() <= 33


def test_only_a_rare_class_far_above_q_is_cut_by_itself():
    """Class 2 is as large as the others, and its own rate among the kept rows is 5 q."""
    y = np.repeat([0, 1, 2], 500)
    X = np.random.default_rng(0).normal(size=(1500, 8)) + 4 * np.eye(8)[y]
    selection = KnockoffsSPR(q=0.03).fit(X, y).selection_
    level = np.full(1500, 0.02)
    uneven = replace(selection, doubt=np.where(y == 2, 0.15, 0.001), q_value=level)
    assert cut_apart(uneven, 0.03).cut_groups.class_code.tolist() == [-1]
    rare = replace(uneven, q_value=np.where((y == 2) & (np.arange(1500) % 5 > 0), 0.5, level))
    assert cut_apart(rare, 0.03).cut_groups.class_code.tolist() == [-1, 2]
