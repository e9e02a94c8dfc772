"""`kspr evaluate`: a run against the true labels."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kspr import Selection
from tests.cli.commands import run


def test_evaluate_finds_the_truth_in_the_source(made, digits, capsys):
    answer = json.loads(run("evaluate", made, "--json", capsys=capsys))
    _X, truth, noisy = digits
    selection = Selection.load(made)
    wrong_kept = (selection.clean_mask & (noisy != truth)).sum()
    assert answer["quality"]["fsr"] == pytest.approx(wrong_kept / selection.clean_mask.sum())
    assert answer["n_wrong"] == 270
    # One draw: the mean of many stays within q, a single one need not.
    assert answer["kept_promise"] is (answer["quality"]["fsr"] <= 0.05)
    assert np.array(answer["confusion"]).sum() == 270
    text = run("evaluate", made, capsys=capsys)
    assert "digit-7" in text
    assert "recall" in text


def test_labels_cannot_act_on_the_terminal(digits, tmp_path, capsys):
    X, truth, noisy = digits
    hostile = {f"digit-{k}": f"\x1b[3{k}m{k}\nFSR     0.0000" for k in range(10)}
    named = [np.array([hostile[label] for label in labels]) for labels in (noisy, truth)]
    np.savez(tmp_path / "d.npz", X=X, y=named[0], y_true=named[1])
    run("select", tmp_path / "d.npz", "--label", "y", "--out", tmp_path / "r", capsys=capsys)
    text = run("evaluate", tmp_path / "r", "--truth", "y_true", capsys=capsys)
    assert "true → suggested" in text
    assert "\x1b" not in text
    assert len([line for line in text.splitlines() if line.startswith("FSR  ")]) == 1


def test_the_truth_that_select_was_told_of_is_remembered(tmp_path, capsys):
    """Also where the column was taken for a category, as without --truth it is."""
    rng = np.random.default_rng(0)
    kinds = np.array(["basic", "plus"])
    right = rng.integers(0, 2, 300)
    plan = kinds[np.where(rng.random(300) < 0.2, 1 - right, right)]
    columns = zip(right + 0.1 * rng.standard_normal(300), plan, kinds[right], strict=True)
    lines = ["size,plan,really", *(f"{x:.3f},{given},{true}" for x, given, true in columns)]
    (tmp_path / "plans.csv").write_text("\n".join(lines))
    told, leaked = tmp_path / "told", tmp_path / "leaked"
    run("select", tmp_path / "plans.csv", "--label", "plan", "--truth", "really", "--out", told)
    run("select", tmp_path / "plans.csv", "--label", "plan", "--out", leaked, capsys=capsys)
    n_wrong = int((plan != kinds[right]).sum())
    for found in (
        run("evaluate", told, "--json", capsys=capsys),
        run("evaluate", leaked, "--truth", "really", "--json", capsys=capsys),
    ):
        assert json.loads(found)["n_wrong"] == n_wrong


def test_nothing_is_said_of_suggestions_where_there_are_none(digits, tmp_path, capsys):
    """The label of a row with several annotators is the suggestion itself."""
    X, truth, noisy = digits
    people = {
        f"rater_{k}": np.where(np.arange(len(truth)) % 5 == k, noisy, truth) for k in range(2)
    }
    columns = {f"p{k}": X[:, k] for k in range(64)}
    pq.write_table(pa.table({**columns, **people, "truth": truth}), tmp_path / "people.parquet")
    out = tmp_path / "r"
    run("select", tmp_path / "people.parquet", "--annotators", "rater_*", "--out", out)
    capsys.readouterr()
    text = run("evaluate", out, capsys=capsys)
    assert "recall" in text
    assert "suggested label right" not in text
