"""The consensus of several annotators, how good each of them is, and which rows are kept."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

from kspr import AnnotatorSelector, InputError, Selection
from kspr.noise import symmetric

X, TRUTH = load_digits(return_X_y=True)
NAMES = np.array([f"digit {k}" for k in range(10)])


def crowd(rates=(0.1, 0.2, 0.4), y=TRUTH):
    return np.column_stack([symmetric(y, rate, seed=k) for k, rate in enumerate(rates)])


@pytest.fixture(scope="module")
def fitted():
    return AnnotatorSelector(q=0.01, progress=False).fit(X, crowd())


def test_the_consensus_is_better_than_the_best_annotator(fitted):
    assert (fitted.selection_.label == TRUTH).mean() > 0.98


def test_the_accuracy_of_each_annotator_is_found(fitted):
    found = fitted.annotators_
    np.testing.assert_allclose(found.accuracy, [0.9, 0.8, 0.6], atol=0.03)
    assert ((found.low < found.accuracy) & (found.accuracy < found.high)).all()
    assert found.noise_rate == pytest.approx((crowd() != TRUTH[:, None]).mean(), abs=0.02)
    lines = repr(found).splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["2", "1", "0"]


def test_few_kept_labels_are_wrong(fitted):
    selection = fitted.selection_
    assert (selection.label != TRUTH)[selection.clean_mask].mean() <= 0.02
    assert set(selection.cut_groups.status.tolist()) == {"assumed"}
    assert "annotators err independently" in selection.assumption


def test_errors_on_rows_that_look_unclear_are_explained_by_the_look():
    """Three annotators call unclear rows by the next class, so that they often agree on it.

    That is no error made together, and the estimate is near the share of the wrong.
    """
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 6, 3_000)
    shown = np.eye(6)[truth] + 0.5 * rng.standard_normal((3_000, 6))
    two = np.sort(shown, axis=1)[:, -2:]
    unclear = np.argsort(np.argsort(two[:, 0] - two[:, 1])) / 3_000
    taken = rng.random((3, 3_000)) < 0.5 * unclear**2
    y = np.where(taken, (truth + 1) % 6, truth).T
    model = AnnotatorSelector(reduction=None, progress=False).fit(shown, y)
    assert model.evidence_weight_ > 0.85
    wrong = (model.selection_.label != truth).mean()
    assert abs(model.selection_.noise.rate - wrong) < 0.006


def test_both_ends_are_shown(fitted):
    ends = fitted.selection_.ends()
    assert 0 < ends.by_class <= ends.by_people < 0.1
    assert "if they err together." in str(ends)
    low, high = fitted.selection_.noise.rate_interval
    assert low <= fitted.selection_.noise.rate <= high


def test_the_statistic_is_the_chance_that_the_consensus_is_wrong(fitted):
    doubt = 1 - fitted.probabilities_.max(axis=1)
    np.testing.assert_array_equal(fitted.selection_.doubt, doubt)
    suspects = fitted.selection_.suspect_indices
    assert (np.diff(doubt[suspects]) <= 0).all()
    np.testing.assert_allclose(fitted.probabilities_.sum(axis=1), 1)


def test_checked_rows_move_the_cut_as_for_any_selection(fitted):
    rows = fitted.selection_.draw_checks(100, q=0.02)
    checked = fitted.selection_.with_checks(rows, TRUTH[rows], q=0.02)
    assert "whatever the noise is" in checked.assumption
    assert (checked.label != TRUTH)[checked.clean_mask].mean() <= 0.02


def test_a_saved_selection_comes_back(fitted, tmp_path):
    again = Selection.load(fitted.selection_.save(tmp_path / "crowd"))
    np.testing.assert_array_equal(again.clean_mask, fitted.selection_.clean_mask)
    assert again.control == "annotators"


def test_labels_keep_their_type_and_gaps_do_not_matter():
    y = NAMES[crowd()].astype(object)
    y[::3, 2] = None
    model = AnnotatorSelector(q=0.05, progress=False).fit(X, y)
    assert model.classes_.tolist() == NAMES.tolist()
    assert model.annotators_.n_labels.tolist() == [1797, 1797, 1198]
    assert (model.selection_.label == NAMES[TRUTH]).mean() > 0.97


def test_a_class_that_wins_no_row_is_no_class_of_the_selection():
    y = crowd((0.1, 0.1, 0.1))
    y[5, 0] = 99
    model = AnnotatorSelector(progress=False).fit(X, y)
    assert model.classes_.tolist() == [*range(10), 99]
    assert model.selection_.classes.tolist() == list(range(10))
    assert model.probabilities_.shape == (len(X), 11)


def test_a_cut_per_class_holds_the_level_in_each():
    found = AnnotatorSelector(q=0.02, cut="per_class", progress=False).fit(X, crowd()).selection_
    assert len(found.cut_groups) == 10
    for k in range(10):
        kept = found.clean_mask & (found.label == k)
        assert found.doubt[kept].mean() <= 0.02


def test_resampling_returns_the_consensus():
    kept, label = AnnotatorSelector(progress=False).fit_resample(X, crowd())
    assert len(kept) == len(label)
    assert label.ndim == 1


def test_the_same_seed_gives_the_same_answer_and_the_parameters_are_scikit_learns():
    model = AnnotatorSelector(q=0.02, random_state=3, progress=False)
    first, second = (clone(model).fit(X, crowd()).selection_ for _ in range(2))
    np.testing.assert_array_equal(first.doubt, second.doubt)
    assert first.manifest.fingerprint == second.manifest.fingerprint
    assert first.manifest.parameters["q"] == 0.02


def test_the_fingerprint_knows_every_label():
    y = crowd()
    first = AnnotatorSelector(progress=False).fit(X, y).selection_
    y[0, 2] = (y[0, 2] + 1) % 10
    second = AnnotatorSelector(progress=False).fit(X, y).selection_
    assert first.manifest.fingerprint != second.manifest.fingerprint


def test_bad_parameters_are_named():
    with pytest.raises(InputError, match="q must lie in"):
        AnnotatorSelector(q=5).fit(X, crowd())
    with pytest.raises(InputError, match="cut must be one of"):
        AnnotatorSelector(cut="none").fit(X, crowd())


@pytest.mark.slow
def test_the_intervals_of_the_annotators_hold():
    """Of 120 intervals of 95 %, at least 100 contain the share of right labels."""
    held = 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        rates = rng.uniform(0.05, 0.5, 40)
        y = np.column_stack([symmetric(TRUTH, rate, seed=k) for k, rate in enumerate(rates)])
        # Every row has three labels.
        gone = np.argsort(rng.random(y.shape), axis=1)[:, 3:]
        y[np.arange(len(y))[:, None], gone] = -1
        found = AnnotatorSelector(progress=False).fit(X, y).annotators_
        right = np.array([(y[:, k] == TRUTH)[y[:, k] >= 0].mean() for k in range(40)])
        held += int(((found.low <= right) & (right <= found.high)).sum())
    assert held >= 100
