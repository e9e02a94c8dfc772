"""`kspr methods`, and `kspr train --method`."""

import json

import numpy as np
import pytest

from kspr.experiments.baselines import METHODS
from tests.cli.commands import fails, run
from tests.train.conftest import one_thread  # noqa: F401 - a fixture
from tests.train.digits import small_digits


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "digits.npz"
    small = small_digits()
    np.savez(path, X=small.X, y=small.y)
    return path


def train(source, out, *more):
    return ["train", source, "--epochs", "2", "--out", out, *more]


def test_every_method_is_listed_with_what_it_is_told(capsys):
    text = run("methods", capsys=capsys)
    listed = json.loads(run("methods", "--json", capsys=capsys))
    assert [entry["name"] for entry in listed] == list(METHODS)
    for name, method in METHODS.items():
        [line] = [line for line in text.splitlines() if line.split("  ")[0] == name]
        assert (method.told or " - ") in line
        assert method.idea in line


def test_a_method_trains_a_network_that_predicts_and_continues(source, tmp_path, capsys):
    out = tmp_path / "run"
    text = run(*train(source, out, "--method", "gce", "--test", source), capsys=capsys)
    assert "Network: the GCE average of epoch 2" in text
    run("predict", out, source, "--out", tmp_path / "predicted.csv")
    assert "its selection:\nnone" in run("evaluate", out, capsys=capsys).split("predicted")[-1]
    network = json.loads(run("evaluate", out, "--json", capsys=capsys))["network"]
    assert network["model_choice"] == "GCE average"
    again = run(*train(source, out, "--method", "gce", "--test", source, "--resume"), capsys=capsys)
    assert text.splitlines()[-4:] == again.splitlines()[-4:]


def test_a_noise_rate_is_for_methods_that_must_be_told_it(source, tmp_path, capsys):
    out = tmp_path / "run"
    message = fails(*train(source, out, "--method", "co-teaching"), capsys=capsys)
    assert "pass --noise-rate 0.2 if a fifth is wrong" in message
    message = fails(*train(source, out, "--noise-rate", "0.2"), capsys=capsys)
    assert "--noise-rate is for a --method that must be told it" in message
    assert "There is no method 'gcc'" in fails(
        *train(source, out, "--method", "gcc"), capsys=capsys
    )
    run(*train(source, out, "--method", "co-teaching", "--noise-rate", "0.2"))


def test_several_processes_are_refused(source, tmp_path, capsys, monkeypatch):
    from contextlib import contextmanager

    import torch

    from kspr.train import fitting

    class Two:
        rank, size, device = 0, 2, torch.device("cpu")

    @contextmanager
    def two(device):
        yield Two()

    monkeypatch.setattr(fitting, "the_world", two)
    message = fails(*train(source, tmp_path / "run", "--method", "gce"), capsys=capsys)
    assert "GCE trains in one process, and torchrun started 2" in message
