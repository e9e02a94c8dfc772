"""A classifier that is fitted on the kept rows only."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import check_estimator

from kspr import CleanedClassifier, KnockoffsSPR


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore:The selector keeps no row of")
def test_it_passes_scikit_learns_checks():
    results = check_estimator(CleanedClassifier(), on_fail=None)
    assert len(results) > 40
    assert [r for r in results if r["status"] not in ("passed", "skipped")] == []


def test_it_is_fitted_on_the_kept_rows_alone(digits40):
    model = CleanedClassifier(selector=KnockoffsSPR(q=0.1)).fit(digits40.X, digits40.y)
    clean = model.selector_.selection_.clean_mask
    alone = model._estimator().fit(digits40.X[clean], digits40.y[clean])
    assert np.array_equal(model.predict(digits40.X), alone.predict(digits40.X))


def test_cleaning_in_each_fold_beats_the_plain_classifier(digits40):
    forest = RandomForestClassifier(50, random_state=0)
    pipeline = make_pipeline(StandardScaler(), CleanedClassifier(forest))
    plain = forest.fit(digits40.X[:1200], digits40.y[:1200])
    cleaned = pipeline.fit(digits40.X[:1200], digits40.y[:1200])
    test = digits40.X[1200:], digits40.y_true[1200:]
    assert cleaned.score(*test) > plain.score(*test)
    assert len(cross_val_score(pipeline, digits40.X[:600], digits40.y[:600], cv=3)) == 3


def test_a_method_that_the_classifier_lacks_is_lacking(blobs):
    model = CleanedClassifier(LinearSVC())
    assert not hasattr(model, "predict_proba")
    assert model.fit(blobs.X, blobs.y).decision_function(blobs.X).shape == (len(blobs.y), 3)


def test_names_of_features_and_labels_of_any_type_pass_through(blobs):
    frame = pd.DataFrame(blobs.X, columns=[f"f{k}" for k in range(blobs.X.shape[1])])
    model = CleanedClassifier().fit(frame, np.array(["a", "b", "c"])[blobs.y])
    assert list(model.feature_names_in_) == list(frame)
    assert set(model.predict(frame)) <= {"a", "b", "c"}


def test_a_class_that_keeps_no_row_keeps_all_of_them_with_a_warning():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 5)), rng.integers(0, 2, 200)
    with pytest.warns(UserWarning, match="no row of 2 of 2 classes"):
        model = CleanedClassifier(selector=KnockoffsSPR(q=0.001)).fit(X, y)
    assert np.array_equal(model.predict(X), model._estimator().fit(X, y).predict(X))
