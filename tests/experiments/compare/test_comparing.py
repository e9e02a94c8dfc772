"""Methods compared: the measures, and the file to continue from."""

import re
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from kspr.errors import InputError
from kspr.experiments.compare import comparing
from kspr.experiments.compare.comparing import KnownTruth, compare
from kspr.experiments.compare.peers import PEERS, Judged
from tests.experiments.compare.samples import FEW

TRUTH = np.arange(60) % 3
Y = np.where(np.arange(60) < 6, (TRUTH + 1) % 3, TRUTH)
P = np.eye(3)[TRUTH] * 0.7 + 0.1


def measures(trial):
    return replace(trial, seconds=0.0, memory=None)


def test_references_enclose_every_method(found):
    assert [trial.method for trial in found.trials] == ["no cleaning", "oracle", *FEW]
    nothing, oracle = found["no cleaning"], found["oracle"]
    assert (nothing.recall, nothing.fsr) == (1.0, pytest.approx(found.wrong))
    assert (oracle.recall, oracle.fsr) == (1.0, 0.0)
    assert nothing.accuracy < found["kspr"].accuracy <= oracle.accuracy + 0.02


def test_downstream_is_the_same_classifier_on_what_is_kept(found, small):
    X, y, y_true, (X_test, y_test) = small
    scale = np.sqrt(np.mean((X - X.mean(0)) ** 2))
    right = y == y_true
    model = LogisticRegression(max_iter=200).fit((X[right] - X.mean(0)) / scale, y[right])
    expected = model.score((X_test - X.mean(0)) / scale, y_test)
    assert found["oracle"].accuracy == pytest.approx(expected, abs=0.011)


def test_trials_do_not_depend_on_their_order_or_company(found, small):
    X, y, y_true, test = small
    turned = compare(X, y, y_true, FEW[::-1], test=test)
    alone = compare(X, y, y_true, ["neighbours"], test=test)
    for name in FEW:
        assert measures(turned[name]) == measures(found[name])
    assert measures(alone["neighbours"]) == measures(found["neighbours"])


def test_errors_of_the_noise_rate_are_against_the_truth(found):
    trial = found["kspr"]
    assert trial.noise_rate_error == pytest.approx(trial.noise_rate - found.wrong)
    assert found["neighbours"].noise_rate_error is None


def test_a_comparison_goes_on_where_it_stopped(small, tmp_path, monkeypatch):
    X, y, y_true, _ = small
    file = tmp_path / "trials.json"
    first = compare(X, y, y_true, ["neighbours"], trials=file)

    def refuse(*_args):
        raise AssertionError("measured again")

    both = compare(X, y, y_true, ["neighbours", "kspr"], trials=file)
    assert both["neighbours"] == first["neighbours"]
    monkeypatch.setattr(comparing.KnownTruth, "measure", refuse)
    assert compare(X, y, y_true, ["kspr", "neighbours"], trials=file)["kspr"] == both["kspr"]
    for changed in ({"q": 0.2}, {"seed": 1}):
        with pytest.raises(AssertionError, match="measured again"):
            compare(X, y, y_true, ["kspr"], trials=file, **changed)
    with pytest.raises(AssertionError, match="measured again"):
        compare(X, y_true, y_true, ["kspr"], trials=file)


def test_a_method_of_ones_own_joins(small):
    X, y, y_true, _ = small

    class Everything:
        def judge(self, shared, *, seed):
            return Judged(np.ones(len(shared.y), bool), np.zeros(len(shared.y)))

    trial = compare(X, y, y_true, {"mine": Everything()})["mine"]
    assert trial.recall == 1
    assert trial.auroc is None


def test_wide_features_are_reduced_for_all(small):
    X, y, y_true, test = small
    assert compare(X, y, y_true, ["neighbours"], test=test, dimensions=10).n_features == 10


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"methods": ["magic"]}, "methods must be one of"),
        ({"methods": []}, "methods is empty"),
        ({"q": 2}, "q must lie in"),
        ({"y": np.r_[[77], np.arange(599) % 10]}, "it has 1 of the 5 samples"),
        ({"y_true": np.zeros(3)}, "X has 600 rows but the true labels"),
        ({"y_true": np.full(600, 77)}, "y and y_true differ in every row"),
        ({"test": (np.zeros((5, 3)), np.zeros(5))}, "The test set has 3 features but X has 64"),
        ({"test": (np.zeros((5, 64)), np.zeros(4))}, "The test set has 5 rows but the labels"),
    ],
)
def test_bad_input_is_one_sentence(small, changes, message):
    X, y, y_true, _ = small
    with pytest.raises(InputError, match=re.escape(message)):
        compare(**{"X": X, "y": y, "y_true": y_true, "methods": ["kspr"], **changes})


def test_one_set_of_probabilities_serves_all_methods_that_take_them(small):
    X, y, y_true, _ = small
    P = np.eye(10)[y_true] * 0.9 + 0.01
    found = compare(None, y, y_true, probabilities=P, classes=np.arange(10))
    names = [trial.method for trial in found.trials]
    assert names == [n for n in PEERS if n.startswith(("cleanlab", "kspr-prob", "small-loss"))]
    assert min(trial.auroc for trial in found.trials) > 0.999
    beside = compare(X, y, y_true, ["cleanlab-both", "neighbours"], probabilities=P)
    assert beside["cleanlab-both"].f1 == found["cleanlab-both"].f1
    assert beside["neighbours"].f1 == compare(X, y, y_true, ["neighbours"])["neighbours"].f1


def test_other_probabilities_are_another_trial(small, tmp_path):
    X, y, y_true, _ = small
    P, file = np.eye(10)[y_true] * 0.9 + 0.01, tmp_path / "t.json"
    given = compare(X, y, y_true, ["kspr-probabilities"], probabilities=P, trials=file)
    own = compare(X, y, y_true, ["kspr-probabilities"], trials=file)
    assert own["kspr-probabilities"].f1 != given["kspr-probabilities"].f1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "needs features, or the probabilities"),
        ({"probabilities": True, "test": True}, "A test set goes with features"),
        ({"probabilities": True, "methods": ["neighbours"]}, "'neighbours' needs features"),
    ],
)
def test_what_cannot_be_compared_without_features_is_refused(small, arguments, message):
    _, y, y_true, test = small
    said = {"probabilities": np.eye(10)[y], "test": test}
    chosen = {name: said.get(name, value) for name, value in arguments.items()}
    with pytest.raises(InputError, match=message):
        compare(None, y, y_true, **chosen)


def test_columns_of_probabilities_follow_the_classes():
    found = KnownTruth(None, Y, TRUTH, None, 128, P[:, ::-1], [2, 1, 0])
    assert np.allclose(found.probabilities, P)
    assert found.wrong == pytest.approx(0.1)


def test_other_probabilities_have_another_fingerprint():
    X = np.random.default_rng(0).standard_normal((60, 4))
    prints = {KnownTruth(X, Y, TRUTH, None, 128, p).fingerprint for p in (None, P, P[::-1])}
    assert len(prints) == 3


def test_folds_need_classes_of_five_unless_probabilities_are_given():
    y = Y.copy()
    y[y == 0] = 1
    y[:3] = 0
    with pytest.raises(InputError, match="too small for a comparison"):
        KnownTruth(np.eye(60), y, y, None, 128)
    assert KnownTruth(None, y, y, None, 128, P).wrong == 0
