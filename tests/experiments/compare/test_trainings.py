"""Training methods side by side."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from kspr.errors import InputError
from kspr.experiments.baselines import METHODS
from kspr.experiments.compare.trainings import _chosen, compare_training
from kspr.noise import symmetric
from kspr.train import TrainSettings, load_trained

QUICK = TrainSettings.from_preset("cpu", epochs=3, batch_size=32)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:400], symmetric(y[:400], 0.3, seed=0), (X[400:700], y[400:700])


def test_the_best_comes_first_and_others_are_behind_by_a_paired_difference(digits, tmp_path):
    found = compare_training(*digits, ["kspr", "gce", "elr"], settings=QUICK, out=tmp_path)
    best, *others = found.trials
    assert (best.behind, best.error) == (0, 0)
    X, y = digits[2]
    right = {t.method: load_trained(tmp_path / t.method).predict(X) == y for t in found.trials}
    for trial in others:
        assert trial.accuracy == right[trial.method].mean() <= best.accuracy
        difference = right[best.method].astype(float) - right[trial.method]
        assert trial.behind == pytest.approx(difference.mean())
        assert trial.error == pytest.approx(difference.std() / np.sqrt(300))
    text = str(found)
    assert text.index(best.method) < text.index(others[0].method)
    assert "tested on 300 with right labels" in text


def test_a_comparison_continues_from_the_runs_in_its_folder(digits, tmp_path):
    first = compare_training(*digits, ["gce", "elr"], settings=QUICK, out=tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/checkpoints/*.pt")}
    again = compare_training(*digits, ["gce", "elr"], settings=QUICK, out=tmp_path)
    assert first == again
    assert before == {path: path.stat().st_mtime_ns for path in before}
    with pytest.raises(InputError, match="is of another run: its epochs"):
        compare_training(*digits, ["gce"], settings=QUICK.changed(epochs=4), out=tmp_path)


def test_methods_that_must_be_told_take_part_once_they_are():
    assert "co-teaching" not in _chosen(None, None)
    assert _chosen(None, 0.2) == ["kspr", *METHODS]
    assert _chosen(["elr", "kspr", "elr"], None) == ["elr", "kspr"]
    with pytest.raises(InputError, match="'datalab'"):
        _chosen(["datalab"], None)


def test_what_a_method_was_told_is_shown(digits):
    found = compare_training(*digits, ["co-teaching", "gce"], settings=QUICK, noise_rate=0.3)
    assert {trial.method: trial.told for trial in found.trials} == {
        "co-teaching": "the noise rate",
        "gce": "",
    }
