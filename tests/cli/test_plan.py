"""`kspr plan`: the rows that a person must label, in a file, and the finished data set."""

import json

import numpy as np
import pandas as pd
import pytest

from tests.cli.commands import fails, run

N = 1500
KINDS = np.array(["bus", "car"])


@pytest.fixture
def checked(tmp_path):
    """A run of 1,500 rows with 150 checks, and the true labels."""
    rng = np.random.default_rng(0)
    doubt, truth = rng.random(N), rng.integers(0, 2, N)
    given = np.where(rng.random(N) < 0.6 * doubt**2, 1 - truth, truth)
    table = pd.DataFrame({"id": [f"t{k}" for k in range(N)], "doubt": doubt, "kind": KINDS[given]})
    table.to_csv(tmp_path / "table.csv", index=False)
    named = ("--doubt", "doubt", "--label", "kind")
    run("select", tmp_path / "table.csv", *named, "--out", tmp_path / "run")
    run("verify", tmp_path / "run", "--checks", 150)
    return tmp_path / "run", KINDS[truth]


def answer(path, truth):
    table = pd.read_csv(path, dtype=str)
    table["true_label"] = truth[table["row"].astype(int)]
    table.to_csv(path, index=False)


def test_the_finished_data_set_has_few_wrong_labels(checked, tmp_path, capsys):
    folder, truth = checked
    answer(tmp_path / "run-checks.csv", truth)
    run("verify", folder, "--answers", tmp_path / "run-checks.csv")
    capsys.readouterr()
    said = run("plan", folder, "--max-wrong", 0.05, capsys=capsys)
    assert "Then at most 5 % of all 1,500 labels are wrong, with 95% confidence" in said
    planned = pd.read_csv(tmp_path / "run-plan.csv")
    assert 100 < len(planned) < 1350
    assert planned["drawn_from"].isna().all()
    answer(tmp_path / "run-plan.csv", truth)
    run("export", folder, "--out", tmp_path / "unfinished.csv")
    said = capsys.readouterr().err
    assert f"0 of {len(planned)} rows of the plan are labelled. Once all are" in said
    run("verify", folder, "--answers", tmp_path / "run-plan.csv")
    capsys.readouterr()
    assert (
        json.loads(run("plan", folder, "--max-wrong", 0.05, "--json", capsys=capsys))["rows"] == []
    )
    run("export", folder, "--out", tmp_path / "finished.csv")
    said = capsys.readouterr().err
    assert "At most 75 wrong labels are in the finished data set (5 % of all 1,500)" in said
    finished = pd.read_csv(tmp_path / "finished.csv")
    assert len(finished) == N
    assert (finished["kind"].to_numpy() != truth).mean() <= 0.05

    run("export", folder, "--suspects", "drop", "--out", tmp_path / "kept.csv")
    assert "What the plan promises is not about this file" in capsys.readouterr().err


def test_a_draw_that_is_not_finished_is_refused(checked, tmp_path, capsys):
    said = fails("plan", checked[0], "--max-wrong", 0.05, capsys=capsys)
    assert "150 of the 150 rows that were drawn have no answer" in said


def test_a_run_without_checks_is_refused(tmp_path, capsys):
    table = pd.DataFrame({"doubt": np.arange(50.0)})
    table.to_csv(tmp_path / "table.csv", index=False)
    run("select", tmp_path / "table.csv", "--doubt", "doubt", "--out", tmp_path / "run")
    capsys.readouterr()
    said = fails("plan", tmp_path / "run", "--max-wrong", 0.05, capsys=capsys)
    assert "drawn at random and checked" in said
