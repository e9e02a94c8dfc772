"""`kspr select --target numbers`: labels that are quantities or grades."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_friedman1

from kspr import DoubtSelector
from kspr.runs.run import load_run
from kspr.selectors.held_out import held_out_residuals
from tests.cli.commands import fails, run

N = 1200


@pytest.fixture(scope="module")
def prices(tmp_path_factory):
    """A table of prices, of which some belong to other rows, and which these are."""
    rng = np.random.default_rng(0)
    X, y = make_friedman1(N, noise=0.5, random_state=0)
    wrong = rng.random(N) < 0.15
    given = np.where(wrong, rng.permutation(y), y)
    table = pd.DataFrame(X.astype(np.float32), columns=[f"x{k}" for k in range(10)])
    table = table.assign(id=[f"h{k}" for k in range(N)], price=given, truth=y)
    table["grade"] = np.digitize(given, np.quantile(y, [0.2, 0.4, 0.6, 0.8]))
    path = tmp_path_factory.mktemp("prices") / "prices.csv"
    table.to_csv(path, index=False)
    return path, table, given != y


def test_numbers_far_from_what_a_model_says_are_doubted_and_checks_give_a_rate(
    prices, tmp_path, capsys
):
    path, table, wrong = prices
    out, file = tmp_path / "run", tmp_path / "c.csv"
    said = (path, "--label", "price", "--features", "x*", "--target", "numbers", "--q", 0.1)
    run("select", *said, "--model", "extra-trees", "--out", out)
    made = load_run(out)
    X = table.filter(like="x").to_numpy(np.float32)
    doubt = held_out_residuals("extra-trees", X, table["price"].to_numpy())
    expected = DoubtSelector(q=0.1).fit(doubt).selection_
    assert made.selection.doubt.tolist() == expected.doubt.tolist()
    run("verify", out, "--checks", 100, "--out", file)
    checks = pd.read_csv(file, dtype=str)
    # The number itself is shown: people judge it.
    assert (
        checks["price"].astype(float).tolist() == table["price"][checks["row"].astype(int)].tolist()
    )
    assert "truth" not in checks
    checks["true_label"] = np.where(wrong[checks["row"].astype(int)], "wrong", "right")
    checks.to_csv(file, index=False)
    run("verify", out, "--answers", file)
    kept = load_run(out).selection.clean_mask
    assert kept.mean() > 0.6
    assert wrong[kept].mean() < 0.12
    capsys.readouterr()
    run("evaluate", out, "--truth", "truth", "--json")
    found = json.loads(capsys.readouterr().out)
    assert (found["n_wrong"], found["n_kept"]) == (int(wrong.sum()), int(kept.sum()))
    run("export", out, "--out", tmp_path / "clean.csv")
    clean = pd.read_csv(tmp_path / "clean.csv")
    assert clean["price"].tolist() == table["price"][kept].tolist()


def test_a_number_that_was_changed_later_is_another_row(prices, tmp_path):
    path, table, _ = prices
    source = tmp_path / "prices.csv"
    source.write_bytes(path.read_bytes())
    said = (source, "--label", "price", "--features", "x*", "--target", "numbers")
    run("select", *said, "--model", "ridge", "--out", tmp_path / "run")
    table.assign(price=table["price"].where(table.index != 7, 99.0)).to_csv(source, index=False)
    assert load_run(tmp_path / "run").joined.changed.tolist() == [7]


def test_grades_are_numbers_too(prices, tmp_path):
    path, _, _ = prices
    said = (path, "--label", "grade", "--features", "x*", "--target", "numbers")
    run("select", *said, "--out", tmp_path / "run")
    assert load_run(tmp_path / "run").selection.classes.tolist() == ["right"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ((), "Judge them as numbers with --target numbers"),
        (("--model", "random-forest"), "Judge them as numbers with --target numbers"),
        (("--target", "numbers", "--doubt", "x1"), "goes with features"),
        (("--target", "numbers", "--model", "nothing"), "must be a regressor of scikit-learn"),
        (("--target", "numbers", "--cut", "per_class"), "--cut goes with features"),
        (("--target", "numbers", "--label", "id"), "must be numbers"),
    ],
)
def test_what_numbers_need_is_said(prices, tmp_path, capsys, more, words):
    label = () if "--label" in more else ("--label", "price")
    command = ("select", prices[0], *label, "--features", "x*", *more, "--out", tmp_path / "r")
    assert words in fails(*command, capsys=capsys)


def test_numbers_that_people_could_not_see_are_refused(tmp_path, capsys):
    np.save(tmp_path / "X.npy", np.random.default_rng(0).normal(size=(50, 3)))
    (tmp_path / "y.txt").write_text("\n".join(f"{k / 7}" for k in range(50)))
    said = (tmp_path / "X.npy", "--labels", tmp_path / "y.txt", "--target", "numbers")
    assert "goes with a table" in fails("select", *said, "--out", tmp_path / "r", capsys=capsys)
    message = fails("selfcheck", *said, capsys=capsys)
    assert "needs one class a row" in message
