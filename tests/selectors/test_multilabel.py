"""Rows with several labels: pairs of row and label, each label judged by itself."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from kspr import SPR, InputError, KnockoffsSPR, MultiLabelSelector, Selection


@pytest.fixture(scope="module")
def tags(digits40):
    """Features of digits, a true table of labels, and which of its entries were flipped."""
    X, digit = digits40.X[:1000], digits40.y_true[:1000]
    truth = np.column_stack([digit == 3, digit % 2 == 0, digit > 4])
    return X, truth, np.random.default_rng(0).random(truth.shape) < 0.1


@pytest.fixture(scope="module")
def fitted(tags):
    X, truth, flipped = tags
    table = pd.DataFrame(truth ^ flipped, columns=["three", "even", "large"])
    return MultiLabelSelector(KnockoffsSPR(q=0.05)).fit(X, table)


def test_the_rate_holds_over_pairs_and_for_every_label(tags, fitted):
    _, truth, flipped = tags
    kept = fitted.selection_.clean_mask.reshape(truth.shape)
    assert flipped[kept].mean() < 0.05
    assert all(flipped[kept[:, k], k].mean() < 0.08 for k in range(3))
    assert (kept & ~flipped).sum() > 0.9 * (~flipped).sum()
    wrong = ~kept & flipped
    suspects = fitted.selection_.suspect_indices[: wrong.sum() // 2]
    assert flipped.ravel()[suspects].mean() > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_numbers_of_the_page(seed):
    """Twelve labels of all digits: the page has FSR .017 to .022, recall .985 to .988."""
    X, digit = load_digits(return_X_y=True)
    truth = np.column_stack([*(digit == k for k in range(10)), digit % 2 == 0, digit > 4])
    flipped = np.random.default_rng(seed).random(truth.shape) < 0.1
    selector = KnockoffsSPR(q=0.05, random_state=seed)
    kept = MultiLabelSelector(selector).fit(X, truth ^ flipped).selection_.clean_mask
    kept = kept.reshape(truth.shape)
    assert 0.01 < flipped[kept].mean() < 0.03
    assert max(flipped[kept[:, k], k].mean() for k in range(12)) < 0.055
    assert (kept & ~flipped).sum() / (~flipped).sum() > 0.98


def test_a_pair_says_which_label_it_is_about(tags, fitted):
    _, truth, flipped = tags
    given = fitted.selection_.label.reshape(truth.shape)
    assert fitted.labels_.tolist() == ["three", "even", "large"]
    assert set(given[:, 1]) == {"even", "not even"}
    assert ((given[:, 2] == "large") == (truth ^ flipped)[:, 2]).all()
    suggested = fitted.selection_.suggested_label.reshape(truth.shape)
    assert set(suggested[:, 0]) <= {"three", "not three"}


def test_every_form_of_the_labels_gives_the_same(tags, fitted):
    X, truth, flipped = tags
    # In the order of the alphabet, which lists have.
    order = [1, 2, 0]
    table = (truth ^ flipped)[:, order]
    names = np.array(["even", "large", "three"])
    lists = [names[row].tolist() for row in table]
    texts = np.array(["; ".join(row) for row in lists])
    for Y, separator in ((lists, "|"), (texts, ";")):
        model = MultiLabelSelector(KnockoffsSPR(q=0.05), separator=separator).fit(X, Y)
        assert model.labels_.tolist() == names.tolist()
        mask = fitted.selection_.clean_mask.reshape(truth.shape)[:, order]
        assert (model.selection_.clean_mask.reshape(truth.shape) == mask).all()


def test_pairs_are_checked_saved_and_cut_again_like_rows(tags, fitted, tmp_path):
    _, truth, _ = tags
    selection = fitted.selection_
    assert selection.at(0.2).clean_mask.sum() >= selection.clean_mask.sum()
    names = np.where(truth, fitted.labels_, np.char.add("not ", fitted.labels_.astype(str)))
    rows = selection.draw_checks(60)
    checked = selection.with_checks(rows, names.ravel()[rows])
    assert (names.ravel() != checked.label)[checked.clean_mask].mean() < 0.1
    loaded = Selection.load(checked.save(tmp_path / "run"))
    assert (loaded.clean_mask == checked.clean_mask).all()
    assert str(loaded.summary()) == str(checked.summary())


def test_copies_and_groups_are_about_rows(tags):
    X, truth, flipped = tags
    twice = np.concatenate([X, X[:1]])
    table = np.concatenate([truth ^ flipped, truth[:1]])
    groups = np.arange(len(twice)) // 2
    selection = MultiLabelSelector().fit(twice, table, groups=groups).selection_
    sets = selection.duplicate_set.reshape(-1, 3)
    assert (sets[0] == sets[-1]).all()
    assert len(set(sets[0])) == 3


def test_a_selector_without_levels_is_taken_too(tags):
    X, truth, flipped = tags
    selection = MultiLabelSelector(SPR(clean_ratio=0.8)).fit(X, truth ^ flipped).selection_
    assert selection.clean_mask.mean() == pytest.approx(0.8, abs=0.01)
    assert selection.q_value is None


@pytest.mark.parametrize(
    ("Y", "words"),
    [
        (np.ones((4, 2)), "Every row has the label 0"),
        (np.array([[0, 2], [1, 0]]), "must be a table of 0 and 1"),
        ([1, 2, 3], "got 1 in row 0"),
        ([["a", "not a"], ["a"], ["not a"], []], "must stay different"),
    ],
)
def test_what_is_no_table_of_labels_is_refused(Y, words):
    X = np.random.default_rng(0).normal(size=(len(Y), 3))
    with pytest.raises(InputError, match=words):
        MultiLabelSelector(KnockoffsSPR(min_class_size=1)).fit(X, Y)


def test_the_share_to_expect_leaves_out_the_rows_of_classes_that_are_cut_by_themselves():
    """Ten rare labels, half of whose rows are wrong: .028 was said where .009 is true."""
    X, digit = load_digits(return_X_y=True)
    truth = digit[:, None] == np.arange(10)
    flipped = np.random.default_rng(0).random(truth.shape) < 0.05
    selection = MultiLabelSelector().fit(X, truth ^ flipped).selection_
    found = flipped.ravel()[selection.clean_mask].mean()
    assert abs(selection.summary().verdict.wrong_among_kept - found) < 0.01
