"""Methods side by side: the value, the file to go on from, and the command."""

import json
import re
import sys
from dataclasses import replace

import numpy as np
import pytest
from kspr.experiments.compare import comparing
from kspr.experiments.compare.comparing import compare
from kspr.experiments.compare.figure import comparison_figure, spread
from kspr.experiments.compare.peers import PEERS, Judged
from sklearn.linear_model import LogisticRegression

from kspr.errors import InputError
from tests.cli.commands import fails, run

FEW = ["kspr", "neighbours", "small-loss"]


@pytest.fixture(scope="module")
def small(digits20):
    """Return 600 rows for training and 300 to test on."""
    rows, rest = np.arange(600), np.arange(600, 900)
    data = digits20.X[rows], digits20.y[rows], digits20.y_true[rows]
    return *data, (digits20.X[rest], digits20.y_true[rest])


@pytest.fixture(scope="module")
def found(small):
    X, y, y_true, test = small
    return compare(X, y, y_true, FEW, test=test)


def measures(cell):
    return replace(cell, seconds=0.0, memory=None)


def test_references_enclose_every_method(found):
    assert [cell.method for cell in found.cells] == ["no cleaning", "oracle", *FEW]
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


def test_cells_do_not_depend_on_their_order_or_company(found, small):
    X, y, y_true, test = small
    turned = compare(X, y, y_true, FEW[::-1], test=test)
    alone = compare(X, y, y_true, ["neighbours"], test=test)
    for name in FEW:
        assert measures(turned[name]) == measures(found[name])
    assert measures(alone["neighbours"]) == measures(found["neighbours"])


def test_errors_of_the_noise_rate_are_against_the_truth(found):
    cell = found["kspr"]
    assert cell.noise_rate_error == pytest.approx(cell.noise_rate - found.wrong)
    assert found["neighbours"].noise_rate_error is None


def test_the_table_names_who_was_told(found):
    text = str(found)
    assert "small-loss*" in text
    assert "* is told the true share of wrong labels" in text
    assert "accuracy" in text
    assert json.loads(json.dumps(found.to_dict()))["cells"][2]["method"] == "kspr"


def test_a_comparison_goes_on_where_it_stopped(small, tmp_path, monkeypatch):
    X, y, y_true, _ = small
    file = tmp_path / "cells.jsonl"
    first = compare(X, y, y_true, ["neighbours"], cells=file)
    with file.open("a") as out:
        out.write('{"key": "torn')

    def refuse(*_args):
        raise AssertionError("measured again")

    both = compare(X, y, y_true, ["neighbours", "kspr"], cells=file)
    assert both["neighbours"] == first["neighbours"]
    monkeypatch.setattr(comparing._Scene, "measure", refuse)
    assert compare(X, y, y_true, ["kspr", "neighbours"], cells=file)["kspr"] == both["kspr"]
    for changed in ({"q": 0.2}, {"seed": 1}):
        with pytest.raises(AssertionError, match="measured again"):
            compare(X, y, y_true, ["kspr"], cells=file, **changed)
    with pytest.raises(AssertionError, match="measured again"):
        compare(X, y_true, y_true, ["kspr"], cells=file)


def test_a_method_of_ones_own_joins(small):
    X, y, y_true, _ = small

    class Everything:
        def judge(self, shared, *, seed):
            return Judged(np.ones(len(shared.y), bool), np.zeros(len(shared.y)))

    cell = compare(X, y, y_true, {"mine": Everything()})["mine"]
    assert cell.recall == 1
    assert cell.auroc is None


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
        ({"y_true": np.full(600, 77)}, "No label in y is that of y_true"),
        ({"test": (np.zeros((5, 3)), np.zeros(5))}, "The test set has 3 features but X has 64"),
        ({"test": (np.zeros((5, 64)), np.zeros(4))}, "The test set has 5 rows but the labels"),
    ],
)
def test_bad_input_is_one_sentence(small, changes, message):
    X, y, y_true, _ = small
    with pytest.raises(InputError, match=re.escape(message)):
        compare(**{"X": X, "y": y, "y_true": y_true, "methods": ["kspr"], **changes})


def test_names_in_a_figure_keep_order_and_distance():
    wanted = np.array([0.9, 0.1, 0.9, 0.91, 0.5])
    heights = spread(wanted, 0.1)
    assert np.diff(np.sort(heights)).min() >= 0.1 - 1e-9
    assert heights.min() >= 0
    assert heights.max() <= 1
    assert np.all(np.diff(heights[np.argsort(wanted, kind="stable")]) > 0)
    assert heights[1] == pytest.approx(0.1)


def test_the_figure_shows_every_method(found):
    drawn = comparison_figure(found)
    assert drawn.startswith('<svg xmlns="http://www.w3.org/2000/svg"')
    for name in FEW:
        assert name in drawn
    assert "oracle" not in drawn


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
    by_name = {cell["method"]: cell for cell in stored["cells"]}
    for name in FEW:
        assert by_name[name]["f1"] == pytest.approx(found[name].f1)
        assert by_name[name]["accuracy"] == pytest.approx(found[name].accuracy)
    assert (files / "out" / "comparison.svg").stat().st_size > 1000
    again = json.loads(run(*command, "--out", files / "out", "--json", capsys=capsys))
    assert again["cells"] == stored["cells"]


def test_the_command_takes_the_truth_from_a_file(files, small, capsys):
    np.save(files / "truth.npy", small[2])
    np.savez(files / "bare.npz", X=small[0], y=small[1])
    command = ["compare", files / "bare.npz", "--methods", "neighbours"]
    answer = json.loads(run(*command, "--truth", files / "truth.npy", "--json", capsys=capsys))
    assert answer["wrong"] == pytest.approx(float(np.mean(small[1] != small[2])))
    assert "does not know its true labels" in fails(*command, capsys=capsys)
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
    assert "pip install 'knockoffs-spr[peers]'" in message


def test_the_help_lists_every_method(capsys):
    from kspr.cli import compare as command

    for name in PEERS:
        assert f"`{name}`" in command.compare.__doc__
