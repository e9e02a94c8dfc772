"""`kspr compare`, run as a user runs it."""

import json
import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits

from kspr.experiments.compare.comparing import compare
from kspr.experiments.compare.peers import PEERS
from kspr.noise import symmetric
from tests.cli.commands import fails, run

FEW = ["kspr", "neighbours", "small-loss"]


@pytest.fixture(scope="module")
def small():
    """Return 600 rows for training and 300 to test on."""
    X, truth = load_digits(return_X_y=True)
    y = symmetric(truth, 0.2, seed=1)
    return X[:600], y[:600], truth[:600], (X[600:900], truth[600:900])


@pytest.fixture(scope="module")
def found(small):
    X, y, y_true, test = small
    return compare(X, y, y_true, FEW, test=test)


@pytest.fixture
def files(small, tmp_path):
    X, y, y_true, (X_test, y_test) = small
    np.savez(tmp_path / "train.npz", X=X, y=y, truth=y_true)
    np.savez(tmp_path / "test.npz", X=X_test, y=y_test)
    return tmp_path


def test_the_command_writes_table_json_and_figure(files, found, capsys):
    command = ["compare", files / "train.npz", "--test", files / "test.npz", "--methods", *FEW]
    out = run(*command, "--out", files / "out", capsys=capsys)
    assert "oracle" in out
    assert "comparison.svg" in out
    stored = json.loads((files / "out" / "comparison.json").read_text())
    by_name = {trial["method"]: trial for trial in stored["trials"]}
    for name in FEW:
        assert by_name[name]["f1"] == pytest.approx(found[name].f1)
        assert by_name[name]["accuracy"] == pytest.approx(found[name].accuracy)
    assert (files / "out" / "comparison.svg").stat().st_size > 1000
    again = json.loads(run(*command, "--out", files / "out", "--json", capsys=capsys))
    assert again["trials"] == stored["trials"]


def test_the_command_takes_the_truth_from_a_file(files, small, capsys):
    np.save(files / "truth.npy", small[2])
    np.savez(files / "bare.npz", X=small[0], y=small[1])
    command = ["compare", files / "bare.npz", "--methods", "neighbours"]
    answer = json.loads(run(*command, "--truth", files / "truth.npy", "--json", capsys=capsys))
    assert answer["wrong"] == pytest.approx(float(np.mean(small[1] != small[2])))
    assert "has no true labels" in fails(*command, capsys=capsys)
    np.save(files / "short.npy", small[2][:9])
    message = fails(*command, "--truth", files / "short.npy", capsys=capsys)
    assert "has 600 rows but" in message


def test_bad_commands_end_in_one_sentence(files, capsys):
    assert "methods must be one of" in fails(
        "compare", files / "train.npz", "--methods", "magic", capsys=capsys
    )
    fails("compare", files / "nothing.npz", capsys=capsys)


def test_a_missing_extra_is_told_before_anything_runs(files, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "cleanlab.filter", None)
    message = fails("compare", files / "train.npz", capsys=capsys)
    assert "needs 'knockoffs-spr[peers]'" in message


def test_the_help_lists_every_method(capsys):
    from kspr.cli import compare as command

    for name in PEERS:
        assert f"`{name}`" in command.compare.__doc__


def test_probabilities_come_from_columns_or_a_file(files, small, capsys):
    _, y, y_true, _ = small
    P = np.eye(10)[y_true] * 0.9 + 0.01
    np.save(files / "p.npy", P)
    command = ["compare", files / "train.npz", "--methods", "cleanlab-both", "--json"]
    beside = json.loads(run(*command, "--probabilities", files / "p.npy", capsys=capsys))
    np.savez(files / "only.npz", P=P, y=y, truth=y_true)
    alone = json.loads(
        run("compare", files / "only.npz", "--probabilities", "P", "--json", capsys=capsys)
    )
    by_name = {trial["method"]: trial["f1"] for trial in alone["trials"]}
    assert beside["trials"][0]["f1"] == by_name["cleanlab-both"]
    assert "kspr-probabilities" in by_name
    assert "neighbours" not in by_name


def test_training_methods_are_compared_by_a_test_set(files, capsys):
    command = ["compare", files / "train.npz", "--train", "--methods", "kspr", "elr"]
    command += ["--epochs", "2", "--out", files / "runs"]
    assert "--train needs --test" in fails(*command, capsys=capsys)
    text = run(*command, "--test", files / "test.npz", capsys=capsys)
    best = text.split("kspr predict ")[1].split()[0]
    run("predict", best, files / "test.npz", "--out", files / "predicted.csv")
    capsys.readouterr()
    answer = json.loads(run(*command, "--test", files / "test.npz", "--json", capsys=capsys))
    assert {trial["method"] for trial in answer["trials"]} == {"kspr", "elr"}
    assert answer["n_test"] == 300
