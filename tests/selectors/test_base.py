"""The selectors as scikit-learn estimators."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from imblearn.pipeline import make_pipeline
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import check_estimator

from kspr import SPR, KnockoffsSPR, PaperKnockoffsSPR
from tests.selectors.simulated import by_control

SELECTORS = [
    SPR(),
    KnockoffsSPR(),
    KnockoffsSPR(n_splits=2, neighbours=5),
    KnockoffsSPR(level="f1", cut="per_class", duplicates="ignore"),
    PaperKnockoffsSPR(),
    PaperKnockoffsSPR(penalty="lasso", knockoff="random", statistic="symmetric_min", cut="pooled"),
    PaperKnockoffsSPR(classes_per_group=None, samples_per_class=None),
]

CONTROLS = ("transition", "exchangeable", "paper", "theorem")

controls = pytest.mark.parametrize("control", CONTROLS)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize("selector", SELECTORS, ids=lambda s: repr(s)[:60])
def test_selectors_pass_scikit_learns_checks(selector):
    results = check_estimator(selector, on_fail=None)
    assert len(results) > 30
    assert [r for r in results if r["status"] not in ("passed", "skipped")] == []


@controls
def test_fit_predict_marks_clean_one_and_suspect_minus_one(blobs, control):
    selector = by_control(q=0.1, control=control)
    marks = selector.fit_predict(blobs.X, blobs.y)
    assert set(np.unique(marks)) == {-1, 1}
    assert np.array_equal(marks == 1, selector.selection_.clean_mask)


@pytest.mark.parametrize(
    "choice",
    [
        {},
        {"n_splits": 2},
        {"neighbours": 20},
        {"control": "exchangeable"},
        {"control": "paper"},
        {"control": "paper", "knockoff": "random"},
    ],
    ids=str,
)
def test_the_answer_depends_on_the_seed_alone(digits40, choice):
    first, again, other = (
        by_control(random_state=seed, **choice).fit(digits40.X, digits40.y).selection_
        for seed in (3, 3, 4)
    )
    assert np.array_equal(first.q_value, again.q_value)
    assert np.array_equal(first.doubt, again.doubt)
    assert not np.array_equal(first.doubt, other.doubt)


@pytest.mark.parametrize(
    "selector", [KnockoffsSPR(q=0.07), PaperKnockoffsSPR(q=0.07, statistic="symmetric_min")]
)
def test_clone_and_pickle_keep_parameters_and_results(blobs, selector):
    model = clone(selector).fit(blobs.X, blobs.y)
    assert clone(model).get_params() == model.get_params()
    thawed = pickle.loads(pickle.dumps(model))  # noqa: S301 - scikit-learn users do this
    assert np.array_equal(thawed.selection_.clean_mask, model.selection_.clean_mask)


@pytest.mark.parametrize("control", ["transition", "paper"])
def test_works_as_a_step_of_an_imbalanced_learn_pipeline(digits40, control):
    classifier = LogisticRegression(max_iter=2000)
    plain = classifier.fit(digits40.X, digits40.y).score(digits40.X, digits40.y_true)
    pipeline = make_pipeline(by_control(q=0.05, control=control), LogisticRegression(max_iter=2000))
    cleaned = pipeline.fit(digits40.X, digits40.y).score(digits40.X, digits40.y_true)
    assert cleaned > plain + 0.02


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_fit_resample_returns_the_containers_it_was_given(blobs, frame):
    names = [f"f{i}" for i in range(blobs.X.shape[1])]
    X = frame(dict(zip(names, blobs.X.T, strict=True)))
    series = pd.Series if frame is pd.DataFrame else pl.Series
    labels = series(np.array(["a", "b", "c"])[blobs.y])
    model = KnockoffsSPR(q=0.1)
    kept_X, kept_y = model.fit_resample(X, labels)
    assert type(kept_X) is frame
    assert type(kept_y) is series
    assert list(model.feature_names_in_) == names
    clean = model.selection_.clean_mask
    assert np.array_equal(np.asarray(kept_X), blobs.X[clean])
    assert list(kept_y) == list(np.asarray(labels)[clean])


@pytest.mark.parametrize(
    "names",
    [np.array(["ä b", "", "x"]), np.array([True, False, True]), np.array([-5, 10**12, 7])],
    ids=["text", "bool", "int"],
)
def test_labels_of_any_kind_give_the_same_verdicts(blobs, names):
    if names.dtype == bool:
        # Two classes: merge the third into the first.
        codes = np.where(blobs.y == 2, 0, blobs.y)
        values = codes == 0
    else:
        codes, values = blobs.y, names[blobs.y]
    order = np.unique(values, return_inverse=True)[1]
    plain = KnockoffsSPR(q=0.1).fit(blobs.X, order).selection_
    named = KnockoffsSPR(q=0.1).fit(blobs.X, values).selection_
    assert np.array_equal(plain.clean_mask, named.clean_mask)
    assert named.suggested_label.dtype == values.dtype
    assert set(named.suggested_label) <= set(values)
    del codes


@pytest.mark.parametrize(
    ("selector", "step"),
    [
        (KnockoffsSPR(), "Judging rows"),
        (PaperKnockoffsSPR(samples_per_class=None), "PaperKnockoffsSPR"),
        (PaperKnockoffsSPR(samples_per_class=20), "PaperKnockoffsSPR"),
    ],
)
def test_progress_is_shown_when_asked_and_only_then(blobs, selector, step, capfd):
    for mode in (False, "auto"):
        clone(selector).set_params(progress=mode).fit(blobs.X, blobs.y)
    assert capfd.readouterr().err == ""
    clone(selector).set_params(progress=True).fit(blobs.X, blobs.y)
    assert step in capfd.readouterr().err
