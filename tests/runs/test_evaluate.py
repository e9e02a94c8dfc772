"""A run against the true labels: counts by hand, labels of either kind, truth from anywhere."""

import numpy as np
import pytest

from kspr.errors import InputError
from kspr.runs.evaluate import evaluate, evaluate_run, true_labels
from kspr.sources.options import ReadOptions

N = 60


@pytest.fixture
def source(tmp_path, features, names, true_names):
    np.savez(tmp_path / "x.npz", X=features, y=names, y_true=true_names)
    return tmp_path / "x.npz"


def test_counts_are_those_of_the_arrays(selection, names, true_names):
    found = evaluate(selection, true_names)
    kept, wrong = selection.clean_mask, names != true_names
    assert (found.n, found.n_wrong, found.n_kept) == (N, wrong.sum(), kept.sum())
    assert found.quality.fsr == pytest.approx((kept & wrong).sum() / kept.sum())
    assert [row.n_wrong for row in found.per_class] == [
        (wrong & (names == label)).sum() for label in ("cat", "dog", "otter")
    ]
    right = selection.suggested_label[wrong] == true_names[wrong]
    assert found.suggested_right == pytest.approx(right.mean())
    assert found.confusion.sum() == wrong.sum()
    assert np.trace(found.confusion) == right.sum()
    assert found.kept_promise == (found.quality.fsr <= 0.1)


@pytest.mark.parametrize("kind", ["txt", "parquet", "source", "column"])
def test_the_truth_may_come_from_a_file_or_from_the_source(
    run_of, source, tmp_path, true_names, kind
):
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "t.txt").write_text("\n".join(true_names))
    pq.write_table(pa.table({"truth": true_names}), tmp_path / "t.parquet")
    said = {"txt": tmp_path / "t.txt", "parquet": tmp_path / "t.parquet", "column": "y_true"}
    truth = None if kind == "source" else str(said[kind])
    made = run_of(source)
    np.testing.assert_array_equal(true_labels(made, truth).label, true_names)
    assert evaluate_run(made.folder, truth).n == N


def test_truth_that_does_not_fit_is_refused(run_of, source, tmp_path, features, names, selection):
    (tmp_path / "t.txt").write_text("cat\ndog\n")
    with pytest.raises(InputError, match=r"has 60 rows but .*t\.txt has 2 labels"):
        true_labels(run_of(source), str(tmp_path / "t.txt"))
    np.savez(tmp_path / "plain.npz", X=features, y=names)
    with pytest.raises(InputError, match="Pass a file or a column with --truth"):
        true_labels(run_of(tmp_path / "plain.npz"), None)
    with pytest.raises(InputError, match="has no array 'nothing'"):
        true_labels(run_of(source, ReadOptions()), "nothing")
    with pytest.raises(InputError, match="The run has 60 rows but the truth has 3"):
        evaluate(selection, names[:3])


@pytest.fixture
def with_ids(tmp_path, run_of, names):
    lines = [f"n{k},{k / 7},{name}" for k, name in enumerate(names)]
    (tmp_path / "x.csv").write_text("\n".join(["id,f0,label", *lines]))
    return run_of(tmp_path / "x.csv")


def test_the_order_of_a_truth_file_with_ids_does_not_matter(tmp_path, with_ids, true_names):
    order = np.random.default_rng(3).permutation(N)
    lines = [f"n{k},{true_names[k]}" for k in order]
    (tmp_path / "t.csv").write_text("\n".join(["id,truth", *lines]))
    found = true_labels(with_ids, str(tmp_path / "t.csv"))
    np.testing.assert_array_equal(found.label, true_names)
    assert found.notes == ()
    (tmp_path / "plain.txt").write_text("\n".join(true_names))
    found = true_labels(with_ids, str(tmp_path / "plain.txt"))
    assert found.notes[0].endswith("plain.txt has no ids.")


def test_rows_without_truth_are_left_out_and_counted(tmp_path, with_ids, true_names):
    lines = [f"n{k},{true_names[k]}" for k in range(10, N)]
    (tmp_path / "t.csv").write_text("\n".join(["id,truth", *reversed(lines)]))
    found = evaluate_run(with_ids.folder, str(tmp_path / "t.csv"))
    selection, known = with_ids.selection, np.arange(10, N)
    assert (found.n, found.n_unknown) == (N - 10, 10)
    assert found.n_kept == selection.clean_mask[known].sum()
    assert found.n_wrong == (selection.label != true_names)[known].sum()
    assert "has no true label for 10 rows of the run, left out here: 'n0', 'n1'" in found.notes[0]
    assert sum(row.n for row in found.per_class) == N - 10
    (tmp_path / "t.csv").write_text("id,truth\nother,cat\nmore,cat\n")
    with pytest.raises(InputError, match="has none of the ids of"):
        evaluate_run(with_ids.folder, str(tmp_path / "t.csv"))


def test_the_truth_of_a_run_that_left_rows_out_is_that_of_its_rows(tmp_path, run_of, selection):
    """A file without ids has a line for every row of the source."""
    rows = np.arange(N) + np.arange(N) // 20
    (tmp_path / "t.csv").write_text(
        "\n".join(["text,label", *(f"t{k},{selection.label[k % N]}" for k in range(N + 2))])
    )
    made = run_of(tmp_path / "t.csv", made=selection, row=rows)
    truth = np.array([f"true {k}" for k in range(N + 2)])
    (tmp_path / "t.txt").write_text("\n".join(truth))
    np.testing.assert_array_equal(true_labels(made, str(tmp_path / "t.txt")).label, truth[rows])


def test_a_truth_column_is_joined_to_a_source_that_has_lost_rows(
    tmp_path, run_of, names, true_names
):
    lines = [
        f"{k / 7},{name},{true}"
        for k, (name, true) in enumerate(zip(names, true_names, strict=True))
    ]
    (tmp_path / "x.csv").write_text("\n".join(["f0,label,truth", *lines]))
    made = run_of(tmp_path / "x.csv")
    (tmp_path / "x.csv").write_text("\n".join(["f0,label,truth", *lines[:4], *lines[5:]]))
    found = evaluate_run(made.folder, None)
    assert (found.n, found.n_unknown) == (N - 1, 1)
    assert found.n_wrong == np.delete(names != true_names, 4).sum()
    assert found.notes[0].endswith(": '4'.")
