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
