"""`kspr select` on tables as they are, and by a classifier of scikit-learn."""

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
import pytest

from kspr.runs.run import load_run
from tests.cli.commands import fails, run


@pytest.fixture
def customers(tmp_path):
    """A table of numbers with gaps, categories and dates; a tenth of the labels are wrong."""
    rng = np.random.default_rng(0)
    true = rng.integers(0, 3, 600)
    given = np.where(rng.random(600) < 0.1, (true + rng.integers(1, 3, 600)) % 3, true)
    age = 30 + 15 * true + rng.normal(0, 5, 600)
    columns = {
        "id": [f"C{i}" for i in range(600)],
        "age": pa.array(np.where(rng.random(600) < 0.1, np.nan, age), from_pandas=True),
        "job": np.array(["clerk", "nurse", "driver", None])[np.minimum(true + (age > 70), 3)],
        "since": np.datetime64("2020-01-01") + rng.integers(0, 900, 600),
        "household": rng.integers(0, 200, 600),
        "segment": np.array(["low", "middle", "high"])[given],
        "truth": np.array(["low", "middle", "high"])[true],
    }
    pq.write_table(pa.table(columns), tmp_path / "customers.parquet")
    return tmp_path / "customers.parquet"


def test_a_table_as_it_is_is_selected_exported_and_found_again(customers, tmp_path, capsys):
    said = ("select", customers, "--label", "segment", "--q", "0.1", "--out")
    text = run(*said, tmp_path / "r", "--groups", "household", capsys=capsys)
    assert "of 600 labels kept" in text
    made = load_run(tmp_path / "r")
    assert any(note.startswith("Encoded: numbers are scaled") for note in made.origin.notes)
    assert made.features().shape[0] == 600
    # Other rows than before: the run keeps medians and scales, and the rows are known by content.
    table = pq.read_table(customers)
    pq.write_table(table.slice(5), customers)
    again = load_run(tmp_path / "r")
    assert (len(again.joined.place), len(again.joined.changed)) == (595, 0)
    run("export", tmp_path / "r", "--out", tmp_path / "clean.csv", capsys=capsys)


def test_a_model_by_name_judges_by_held_out_probabilities(customers, tmp_path, capsys):
    said = ("select", customers, "--label", "segment", "--q", "0.1", "--out")
    run(*said, tmp_path / "r", "--model", "random-forest", "--groups", "household", capsys=capsys)
    made = load_run(tmp_path / "r")
    assert made.selection.manifest.method == "ProbabilitySelector"
    right = np.array(pq.read_table(customers)["truth"]) == made.selection.label
    assert right[made.selection.clean_mask].mean() > 0.95
    assert made.selection.clean_mask.sum() > 450
    assert "--model goes with features" in fails(
        *said, tmp_path / "s", "--model", "knn", "--scheduler", "local", capsys=capsys
    )


def test_a_network_and_its_test_set_are_encoded_alike(customers, tmp_path, capsys):
    pytest.importorskip("torch")
    table = pq.read_table(customers)
    pq.write_table(table.slice(0, 400), tmp_path / "train.parquet")
    # No gap is left, one category is alone, and one was never seen.
    test = table.slice(400).filter(pa.compute.is_valid(table.slice(400)["age"]))
    job = ["clerk"] * (len(test) - 1) + ["pilot"]
    test = test.set_column(2, "job", pa.array(job))
    pq.write_table(test, tmp_path / "test.parquet")
    said = (tmp_path / "train.parquet", "--label", "segment")
    more = ("--test", tmp_path / "test.parquet")
    out = tmp_path / "net"
    run("train", *said, *more, "--preset", "cpu", "--epochs", "2", "--out", out)
    capsys.readouterr()
    run("predict", out, tmp_path / "test.parquet", "--out", tmp_path / "p.csv")
    lines = (tmp_path / "p.csv").read_text().splitlines()[1:]
    true = test["truth"].to_pylist()
    right = [line.split(",")[1].strip('"') == t for line, t in zip(lines, true, strict=True)]
    assert np.mean(right) > 0.6
    text = run(*("compare", *said, *more, "--truth", "truth", "--methods", "kspr"), capsys=capsys)
    assert "accuracy" in text


def test_a_network_of_plain_numbers_cannot_judge_gaps(customers, tmp_path, capsys):
    pytest.importorskip("torch")
    table = pq.read_table(customers).select(["id", "age", "household", "segment"])
    pq.write_table(table.filter(pa.compute.is_valid(table["age"])), tmp_path / "train.parquet")
    pq.write_table(table, tmp_path / "test.parquet")
    message = fails(
        *("train", tmp_path / "train.parquet", "--label", "segment", "--preset", "cpu"),
        *("--test", tmp_path / "test.parquet", "--epochs", "1", "--out", tmp_path / "net"),
        capsys=capsys,
    )
    assert "Fill the gaps in" in message
