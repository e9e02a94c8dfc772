"""From a source to a run."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kspr import KnockoffsSPR, ProbabilitySelector
from kspr.errors import InputError
from kspr.runs.run import load_run
from kspr.runs.select import select_source
from kspr.runs.selfcheck import check_run
from kspr.sources.options import AS_FOUND, AS_SHIPPED, ReadOptions


@pytest.fixture
def source(tmp_path, features, names):
    np.savez(tmp_path / "x.npz", X=features, y=names)
    return tmp_path / "x.npz"


def select(source, out, **changes):
    return select_source(
        source,
        out,
        KnockoffsSPR(q=0.1),
        options=AS_FOUND,
        settings=AS_SHIPPED,
        command=("kspr", "select"),
        **changes,
    )


def test_a_run_is_what_the_selector_says_of_the_source(source, tmp_path, selection):
    made = select(source, tmp_path / "run")
    np.testing.assert_array_equal(made.selection.clean_mask, selection.clean_mask)
    assert made.row.tolist() == list(range(60))
    assert load_run(tmp_path / "run").origin.reader == "npz"


def test_an_existing_run_is_refused_before_the_source_is_read(source, tmp_path):
    select(source, tmp_path / "run")
    source.unlink()
    with pytest.raises(InputError, match="already holds a run"):
        select(source, tmp_path / "run")


def test_checked_rows_are_used(source, tmp_path, true_names):
    rows = range(0, 60, 2)
    lines = [f"{row},{true_names[row]},all" for row in rows]
    (tmp_path / "c.csv").write_text("\n".join(["row,true_label,drawn_from", *lines]))
    made = select(source, tmp_path / "run", checked=tmp_path / "c.csv")
    assert sorted(made.selection.checked.rows.tolist()) == list(rows)


@pytest.fixture
def predictions(tmp_path, names):
    """A table of probabilities, columns in reverse order of the classes."""
    classes = np.unique(names)[::-1]
    P = 0.8 * (np.asarray(names)[:, None] == classes) + 0.2 / len(classes)
    columns = {f"p_{name}": P[:, k] for k, name in enumerate(classes)}
    pq.write_table(pa.table({**columns, "y": names}), tmp_path / "p.parquet")
    return tmp_path / "p.parquet"


def by_columns(source, out, *, missing="refuse", **changes):
    return select_source(
        source,
        out,
        ProbabilitySelector(q=0.2),
        options=ReadOptions(probabilities="p_*", missing=missing),
        command=("kspr", "select"),
        **changes,
    )


def test_columns_of_probabilities_are_joined_to_classes_by_name(predictions, tmp_path):
    made = by_columns(predictions, tmp_path / "run")
    assert np.array_equal(made.selection.suggested_label, made.selection.label)
    again = load_run(tmp_path / "run")
    assert again.origin.read_options().probabilities == "p_*"
    assert again.features() is None
    with pytest.raises(InputError, match="would have to be trained again on flipped labels"):
        check_run(again)


def test_a_file_of_probabilities_is_remembered_by_its_whole_path(
    source, predictions, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    names = pq.read_table(predictions)["y"].to_numpy(zero_copy_only=False)
    classes = np.unique(names)
    P = 0.8 * (names[:, None] == classes) + 0.2 / len(classes)
    np.save("p.npy", P)
    made = select_source(
        source,
        tmp_path / "run",
        ProbabilitySelector(q=0.2),
        options=ReadOptions(probabilities="p.npy"),
        command=("kspr", "select"),
    )
    assert made.origin.options["probabilities"] == str(tmp_path / "p.npy")


def test_rows_of_probabilities_without_a_label_are_left_out(predictions, tmp_path):
    whole = by_columns(predictions, tmp_path / "whole")
    table = pq.read_table(predictions)
    names = table["y"].to_pylist()
    gaps = pa.array([None if k in (3, 50) else name for k, name in enumerate(names)])
    table = table.set_column(table.column_names.index("y"), "y", gaps)
    ids = [f"r{k}" for k in range(len(names))]
    pq.write_table(table.append_column("id", [ids]), predictions)
    with pytest.raises(InputError, match="no label in rows 3, 50"):
        by_columns(predictions, tmp_path / "run")
    made = by_columns(predictions, tmp_path / "run", missing="drop")
    left = np.delete(np.arange(len(names)), (3, 50))
    assert made.row.tolist() == left.tolist()
    np.testing.assert_array_equal(made.selection.label, whole.selection.label[left])
    np.testing.assert_array_equal(made.selection.suggested_label, made.selection.label)
    # Rows are found again by their ids after the file was sorted anew.
    pq.write_table(pq.read_table(predictions).take(np.arange(len(names))[::-1]), predictions)
    again = load_run(tmp_path / "run")
    assert again.joined.whole
    assert again.joined.place.tolist() == (len(names) - 1 - left).tolist()


def test_checked_rows_are_used_with_probabilities(predictions, tmp_path, true_names):
    rows = range(0, 60, 2)
    lines = [f"{row},{true_names[row]},all" for row in rows]
    (tmp_path / "c.csv").write_text("\n".join(["row,true_label,drawn_from", *lines]))
    by_columns(predictions, tmp_path / "run", checked=tmp_path / "c.csv")
    found = load_run(tmp_path / "run").selection
    assert sorted(found.checked.rows.tolist()) == list(rows)
    assert found.checked.calibrate
    right = found.label == true_names
    assert np.array_equal(found.clean_mask[::2], right[::2])


def test_a_pattern_of_files_gives_a_run_like_the_one_large_file(tmp_path, digits40):
    columns = {f"x{i}": digits40.X[:, i].astype(np.float32) for i in range(digits40.X.shape[1])}
    ids = [f"d{i}" for i in range(len(digits40.y))]
    table = pa.table({"id": ids, **columns, "label": digits40.y})
    (tmp_path / "parts").mkdir()
    pq.write_table(table, tmp_path / "whole.parquet")
    for number, start in enumerate(range(0, len(table), 700)):
        part = tmp_path / "parts" / f"{number}.parquet"
        pq.write_table(table.slice(start, 700), part, row_group_size=100)
    sources = (tmp_path / "whole.parquet", tmp_path / "parts" / "*.parquet")
    runs = [
        select_source(
            source,
            tmp_path / f"run{number}",
            KnockoffsSPR(q=0.1),
            options=ReadOptions(id="id"),
            settings=AS_SHIPPED,
            command=("kspr",),
        )
        for number, source in enumerate(sources)
    ]
    for name in ("clean_mask", "q_value", "suggested_label"):
        one, many = (getattr(run.selection, name) for run in runs)
        np.testing.assert_array_equal(one, many)
    again = load_run(tmp_path / "run1")
    assert again.joined.whole
    assert not again.notes()
    np.testing.assert_array_equal(again.features(), np.stack(list(columns.values()), axis=1))
    assert again.table().rows == len(table)
    assert not list(tmp_path.glob("*.part"))
