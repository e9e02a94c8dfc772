"""What training returns, in memory and from disk."""

import json

import numpy as np
import pytest
import torch

from kspr.errors import InputError
from kspr.train import fit, load_trained


def test_the_result_predicts_in_the_users_labels(cycled, parts):
    X_test, y_test = parts[3]
    assert (cycled.predict(X_test) == y_test).mean() == pytest.approx(
        cycled.test_accuracy, abs=1e-6
    )
    assert cycled.predict_proba(X_test).sum(axis=1) == pytest.approx(1.0)


def test_rows_of_another_shape_are_refused(cycled):
    with pytest.raises(InputError, match=r"shape \(3,\); the network was trained on \(64,\)"):
        cycled.predict(np.zeros((2, 3), np.float32))


def test_a_run_on_disk_gives_back_all_that_is_not_a_network(small, quick, tmp_path):
    names = np.array([f"digit {k}" for k in range(10)])[small.y]
    first = fit(small.X, names, settings=quick, out=tmp_path / "run")
    again = load_trained(tmp_path / "run")
    assert again.as_result() == first.as_result()
    assert again.classes.tolist() == first.classes.tolist()
    assert (again.settings, again.shape, again.folder) == (quick, (64,), tmp_path / "run")
    assert np.array_equal(again.predict_proba(small.X), first.predict_proba(small.X))


def test_a_module_of_the_users_own_is_loaded_into_the_same_module(small, quick, tmp_path):
    def own():
        return torch.nn.Sequential(torch.nn.Linear(64, 8), torch.nn.ReLU(), torch.nn.Linear(8, 10))

    first = fit(small.X, small.y, settings=quick, network=own(), out=tmp_path / "run")
    again = load_trained(tmp_path / "run", own())
    assert np.array_equal(again.predict_proba(small.X), first.predict_proba(small.X))
    with pytest.raises(InputError, match=r"do not fit the network 'mlp'\. If the run"):
        load_trained(tmp_path / "run")


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("train.json", {"settings": {"epochs": "many"}}),
        ("train.json", {"settings": {"magic": 1}}),
        ("train.json", {"classes": None}),
        ("train.json", {"shape": 3}),
        ("train.json", {"shape": ["x"]}),
        ("result.json", {"epoch": None, "model_choice": None}),
    ],
)
def test_a_damaged_run_is_one_sentence(small, quick, tmp_path, file, content):
    fit(small.X, small.y, settings=quick.changed(epochs=1), out=tmp_path / "run")
    about = json.loads((tmp_path / "run" / file).read_text()) | content
    if file == "result.json":
        about = {name: about[name] for name in content}
    (tmp_path / "run" / file).write_text(json.dumps(about))
    with pytest.raises(InputError, match=rf"{file} is damaged"):
        load_trained(tmp_path / "run")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pipeline": {"centre": "x", "scale": "y"}}, "cannot be read as a training run"),
        ({"pipeline": {}}, "cannot be read as a training run"),
        ({"network": "x"}, "do not fit the network"),
    ],
)
def test_tensors_of_another_kind_are_one_sentence(small, quick, tmp_path, change, message):
    fit(small.X, small.y, settings=quick.changed(epochs=1), out=tmp_path / "run")
    stored = torch.load(tmp_path / "run" / "network.pt", weights_only=True)
    torch.save({**stored, **change}, tmp_path / "run" / "network.pt")
    with pytest.raises(InputError, match=message):
        load_trained(tmp_path / "run")
