"""Export: which rows and labels are written, and what is refused."""

import math

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from kspr.errors import InputError
from kspr.runs.export import export_run
from kspr.sources.options import ReadOptions
from tests.runs.tables import HEADER, N, cells_of, parquet, text_rows, write_csv


def test_relabelled_suspects_are_spelled_as_the_source_spells_the_class(tmp_path, run_of, names):
    rows = text_rows(names)
    path = write_csv(tmp_path / "x.csv", ",", rows)
    run = run_of(path, ReadOptions(features="f*"))
    export_run(run.folder, tmp_path / "o.csv", None, "relabel")
    _, *found = cells_of(tmp_path / "o.csv")
    moved = ~run.selection.clean_mask & (run.selection.suggested_label != run.selection.label)
    assert moved.any()
    for k, row in enumerate(found):
        assert row[5] == f" {run.selection.suggested_label[k] if moved[k] else names[k]}"
        assert [*row[:5], row[6]] == [*rows[k][:5], rows[k][6]]


def test_rows_that_the_run_left_out_are_not_exported(tmp_path, run_of, names, features, typed):
    """A run may have fewer rows than its source: items that could not be read are not in it."""
    from kspr import KnockoffsSPR

    some = np.flatnonzero(np.arange(N) % 7 != 3)
    made = KnockoffsSPR(q=0.1, cut="pooled").fit(features[some], names[some]).selection_
    run = run_of(parquet(typed, tmp_path / "x.pq"), ReadOptions(features="f*"), made, some)
    export_run(run.folder, tmp_path / "o.parquet", None, "keep")
    found = pq.read_table(tmp_path / "o.parquet")
    assert found["größe"].to_pylist() == some.tolist() == found["kspr_row"].to_pylist()
    export_run(run.folder, tmp_path / "p.parquet", None, "relabel")
    label = np.where(made.clean_mask, made.label, made.suggested_label)
    codes = np.searchsorted(["cat", "dog", "otter"], label)
    assert pq.read_table(tmp_path / "p.parquet")["label"].to_pylist() == codes.tolist()


def test_labels_of_a_second_file_take_the_place_of_the_tables_own(tmp_path, run_of, names):
    rows = [[str(i), "old"] for i in range(N)]
    path = write_csv(tmp_path / "x.csv", ",", rows, ["f0", "y"])
    (tmp_path / "new.txt").write_text("\n".join(names))
    run = run_of(path, ReadOptions(labels=tmp_path / "new.txt"))
    export_run(run.folder, tmp_path / "o.csv", None, "keep")
    header, *found = cells_of(tmp_path / "o.csv")
    assert header[:3] == ["f0", "y", "kspr_row"]
    assert [row[1] for row in found] == names.tolist()


def test_an_export_can_be_exported_again(tmp_path, run_of, names):
    rows = text_rows(names)
    path = write_csv(tmp_path / "x.csv", ",", rows)
    export_run(run_of(path, ReadOptions(features="f*")).folder, tmp_path / "o.csv", None, "keep")
    run = run_of(tmp_path / "o.csv", ReadOptions(features="f*"))
    export_run(run.folder, tmp_path / "again.csv", None, "keep")
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "o.csv").read_bytes()


def test_nothing_kept_is_an_empty_table(tmp_path, run_of, selection, names, monkeypatch):
    path = write_csv(tmp_path / "x.csv", ",", text_rows(names))
    run = run_of(path, ReadOptions(features="f*"))
    monkeypatch.setattr("kspr.selectors.Selection.clean_indices", np.array([], dtype=np.int64))
    for out in ("o.csv", "o.parquet", "o.arrow", "o.jsonl"):
        assert export_run(run.folder, tmp_path / out, None, "drop") == 0
    assert cells_of(tmp_path / "o.csv")[0][:7] == HEADER
    assert pq.read_table(tmp_path / "o.parquet").num_rows == 0


def test_a_source_that_has_lost_rows_is_refused(tmp_path, run_of, names):
    path = write_csv(tmp_path / "x.csv", ",", text_rows(names))
    run = run_of(path, ReadOptions(features="f*"))
    write_csv(path, ",", text_rows(names)[:40])
    with pytest.raises(InputError, match=r"has 40 rows now, but .* was made from row 59 too"):
        export_run(run.folder, tmp_path / "o.csv", None, "keep")
    assert not (tmp_path / "o.csv").exists()
    path.unlink()
    with pytest.raises(InputError, match="does not exist"):
        export_run(run.folder, tmp_path / "o.csv", None, "keep")


@pytest.mark.parametrize(
    ("column", "out", "complaint"),
    [
        (pa.array([[1.0]] * N), "o.csv", "A CSV file cannot hold the lists or structs of column"),
        (pa.array([b"x"] * N), "o.csv", "A CSV file cannot hold the bytes of column 'odd'"),
        (pa.array([b"x"] * N, pa.large_binary()), "o.jsonl", "JSON cannot hold the bytes"),
        (pa.array([{"bytes": b"x"}] * N), "o.jsonl", "JSON cannot hold the bytes of column 'odd'"),
    ],
)
def test_what_a_format_cannot_hold_is_refused(tmp_path, run_of, names, column, out, complaint):
    table = pa.table({"f0": np.arange(N) / 2, "odd": column, "label": names})
    run = run_of(parquet(table, tmp_path / "x.parquet"), ReadOptions(features="f0"))
    with pytest.raises(InputError, match=complaint):
        export_run(run.folder, tmp_path / out, None, "keep")
    assert not (tmp_path / out).exists()
    export_run(run.folder, tmp_path / "o.parquet", None, "keep")
    assert pq.read_table(tmp_path / "o.parquet")["odd"].to_pylist() == column.to_pylist()


def test_a_pandas_frame_comes_back_with_its_index(tmp_path, run_of, names):
    import pandas as pd

    frame = pd.DataFrame(
        {"f0": np.arange(N) / 3, "label": names}, index=[f"i{k}" for k in range(N)]
    )
    frame.to_parquet(tmp_path / "x.parquet")
    run = run_of(tmp_path / "x.parquet", ReadOptions(features="f0"))
    export_run(run.folder, tmp_path / "o.parquet", None, "drop")
    found = pd.read_parquet(tmp_path / "o.parquet")
    pd.testing.assert_frame_equal(found[["f0", "label"]], frame.iloc[run.selection.clean_indices])


def test_classes_that_would_share_a_folder_are_refused(tmp_path, picture_folder, run_of):
    run = run_of(picture_folder)
    names = np.where(run.selection.label == "cat", "a/b", "a_b")
    from kspr.runs import export

    with pytest.raises(InputError, match=r"'a/b' and 'a_b' would share the folder 'a_b'"):
        export._class_folders(names)
    export_run(run.folder, tmp_path / "clean", "imagefolder", "drop")
    found = sorted(p.parent.name for p in (tmp_path / "clean").glob("*/*.png"))
    assert found == sorted(run.selection.label[run.selection.clean_mask])


@pytest.fixture
def picture_folder(tmp_path, names):
    """Images whose order in the folder is that of the selection's rows."""
    from PIL import Image

    for k, name in enumerate(names):
        folder = tmp_path / "photos" / f"{k:03d}"
        folder.mkdir(parents=True)
        Image.new("RGB", (2, 2), (k, 0, 0)).save(folder / f"{name}.png")
    return tmp_path / "photos"


def test_nan_is_not_missing(tmp_path, run_of, names):
    table = pa.table({"f0": [math.nan, None] * (N // 2), "label": names})
    run = run_of(parquet(table, tmp_path / "x.parquet"), ReadOptions(features="f0"))
    export_run(run.folder, tmp_path / "o.csv", None, "keep")
    assert [row[0] for row in cells_of(tmp_path / "o.csv")[1:3]] == ["nan", ""]
