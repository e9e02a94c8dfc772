"""`kspr select --annotators`: from several labels a row to a run like any other."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from kspr import Selection
from kspr.noise import symmetric
from tests.cli.commands import fails, run

NAMES = np.array([f"digit-{k}" for k in range(10)])
X, TRUTH = load_digits(return_X_y=True)
WIDE = ("--annotators", "rater_*", "--q", 0.02)


@pytest.fixture
def answers(tmp_path):
    """A table with three annotators, the last of whom has left gaps."""
    frame = pd.DataFrame(X, columns=[f"emb_{k}" for k in range(64)])
    frame.insert(0, "id", [f"s{k}" for k in range(len(X))])
    for k, rate in enumerate((0.1, 0.2, 0.4)):
        frame[f"rater_{k}"] = NAMES[symmetric(TRUTH, rate, seed=k)]
    frame.loc[::3, "rater_2"] = None
    frame["truth"] = NAMES[TRUTH]
    return frame


@pytest.fixture
def wide(answers, tmp_path):
    answers.to_csv(tmp_path / "wide.csv", index=False)
    return tmp_path / "wide.csv"


@pytest.fixture
def long(answers, tmp_path):
    raters = [f"rater_{k}" for k in range(3)]
    answers.drop(columns=raters).to_csv(tmp_path / "plain.csv", index=False)
    lines = answers.melt("id", raters, "worker", "label").dropna()
    lines.sample(frac=1, random_state=0).to_csv(tmp_path / "long.csv", index=False)
    return tmp_path / "plain.csv", "--labels", tmp_path / "long.csv", "--annotators", "worker"


def test_annotators_are_shown_with_their_quality(wide, tmp_path, capsys):
    text = run("select", wide, *WIDE, "--out", tmp_path / "run", capsys=capsys)
    assert "AnnotatorSelector: " in text
    lines = [line.split()[0] for line in text.splitlines() if line.startswith("rater_")]
    assert lines == ["rater_2", "rater_1", "rater_0"]
    assert "of the labels that they gave are wrong" in text
    assert "Where people err together," in text


def test_a_long_table_gives_the_same_run_as_a_wide_one(wide, long, tmp_path, capsys):
    run("select", wide, *WIDE, "--out", tmp_path / "one")
    capsys.readouterr()
    found = run("select", *long, "--q", 0.02, "--out", tmp_path / "two", "--json", capsys=capsys)
    assert json.loads(found)["annotators"]["n_labels"] == [1797, 1797, 1198]
    one, two = (Selection.load(tmp_path / name) for name in ("one", "two"))
    np.testing.assert_array_equal(one.label, two.label)
    np.testing.assert_allclose(one.doubt, two.doubt, atol=1e-6)


def test_later_commands_take_the_consensus_for_the_labels(wide, tmp_path, capsys):
    run("select", wide, *WIDE, "--out", tmp_path / "run")
    (tmp_path / "run").rename(tmp_path / "moved")
    capsys.readouterr()
    found = json.loads(run("evaluate", tmp_path / "moved", "--json", capsys=capsys))
    assert (found["n"], found["n_unknown"]) == (1797, 0)
    assert found["quality"]["fsr"] < 0.02
    run("export", tmp_path / "moved", "--out", tmp_path / "clean.csv")
    label = pd.read_csv(tmp_path / "clean.csv")["label"].to_numpy()
    assert (label == NAMES[TRUTH]).mean() > 0.98
    run("verify", tmp_path / "moved", "--checks", 5)
    run("report", tmp_path / "moved")


def test_rows_that_nobody_labelled_are_refused_or_left_out(answers, tmp_path, capsys):
    answers.loc[[3, 9], [f"rater_{k}" for k in range(3)]] = None
    answers.to_csv(tmp_path / "gaps.csv", index=False)
    command = ("select", tmp_path / "gaps.csv", *WIDE, "--out", tmp_path / "run")
    message = fails(*command, capsys=capsys)
    assert "2 rows of" in message
    assert "the first is s3. Leave them out with --missing drop." in message
    run(*command, "--missing", "drop")
    capsys.readouterr()
    assert len(Selection.load(tmp_path / "run")) == 1795
    found = json.loads(run("evaluate", tmp_path / "run", "--json", capsys=capsys))
    assert found["n"] == 1795


def test_the_gate_sees_that_an_annotator_has_changed_a_label(wide, answers, tmp_path, capsys):
    run("select", wide, *WIDE, "--out", tmp_path / "run")
    asked = ("--max-wrong", 0.05, "--min-kept", 0.5, "--evidence", "estimated")
    run("gate", tmp_path / "run", *asked)
    answers.loc[5, "rater_1"] = "digit-0" if answers.loc[5, "rater_1"] != "digit-0" else "digit-1"
    answers.to_csv(wide, index=False)
    capsys.readouterr()
    message = fails("gate", tmp_path / "run", *asked, capsys=capsys, code=1)
    assert "The annotators' labels are not what the run was made from." in message


@pytest.mark.parametrize("command", ["selfcheck", "compare", "noise", "train", "embed"])
def test_other_commands_need_one_label_a_row(wide, tmp_path, capsys, command):
    out = () if command == "selfcheck" else ("--out", tmp_path / "out.csv")
    message = fails(command, wide, "--annotators", "rater_*", *out, capsys=capsys)
    assert f"`kspr {command}` needs one label a row" in message


def test_options_that_have_no_effect_are_refused(wide, tmp_path, capsys):
    command = ("select", wide, *WIDE, "--out", tmp_path / "run")
    assert "preset goes with one label a row" in fails(*command, "--preset", "spr", capsys=capsys)
    assert "goes with one label a row" in fails(*command, "--control", "paper", capsys=capsys)
    assert "--checked goes with one label a row" in fails(
        *command, "--checked", tmp_path / "x.csv", capsys=capsys
    )
