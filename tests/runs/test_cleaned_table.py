"""Tables, and data sets of Hugging Face: columns, class names and images as they were; marks."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kspr.errors import InputError
from kspr.runs._cleaned_table import marks
from kspr.runs.export import export_run
from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions
from tests.runs.tables import N, parquet
from tests.runs.test_image_files import image, write_photos

CLASSES = ["cat", "dog", "otter"]


@pytest.fixture
def run(run_of, tmp_path, typed):
    return run_of(parquet(typed, tmp_path / "x.parquet"), ReadOptions(features="f*"))


def test_marks_say_what_was_found_of_each_row(run):
    found = pa.table(marks(run, np.array([5, 2]))).to_pylist()
    selection = run.selection
    assert [row["kspr_row"] for row in found] == [5, 2]
    for row in found:
        k = row["kspr_row"]
        assert row["kspr_given_label"] == selection.label[k]
        assert row["kspr_clean"] == selection.clean_mask[k]
        assert row["kspr_suggested_label"] == selection.suggested_label[k]
        assert row["kspr_doubt"] == pytest.approx(selection.doubt[k])
        level = selection.q_value[k]
        assert row["kspr_q_value"] == (pytest.approx(level) if np.isfinite(level) else None)


@pytest.mark.parametrize("suspects", ["drop", "relabel", "keep"])
def test_datasets_loads_what_was_exported_with_its_class_names(run, tmp_path, typed, suspects):
    datasets = pytest.importorskip("datasets")
    made = export_run(run.folder, tmp_path / "o", "huggingface", suspects, threshold=0.2)
    found = datasets.load_from_disk(str(tmp_path / "o"))
    export_run(run.folder, tmp_path / "o.parquet", None, suspects, threshold=0.2)
    expected = pq.read_table(tmp_path / "o.parquet")
    assert found.column_names == expected.column_names
    assert len(found) == made.rows == len(expected)
    assert found.features["label"] == datasets.ClassLabel(names=CLASSES)
    assert found.with_format("arrow")[:].to_pylist() == expected.to_pylist()
    # Without suspects that changed, given labels are what they were.
    names = [CLASSES[code] for code in found["label"]]
    assert (names == found["kspr_given_label"]) == (suspects != "relabel")


def test_what_datasets_saved_comes_back_with_images_and_class_names(run_of, tmp_path, names):
    datasets = pytest.importorskip("datasets")
    kinds = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=CLASSES), "n": kind("int8")}
    )
    columns = {
        "image": [{"bytes": image(k), "path": None} for k in range(N)],
        "label": [CLASSES.index(name) for name in names],
        "n": list(range(N)),
    }
    datasets.Dataset.from_dict(columns, features=kinds).save_to_disk(str(tmp_path / "saved"))
    read = open_source(tmp_path / "saved")
    np.testing.assert_array_equal(read.label, names)
    assert read.items[7].getpixel((0, 0)) == (7, 0, 0)
    run = run_of(tmp_path / "saved")
    export_run(run.folder, tmp_path / "out", "huggingface", "keep")
    found = datasets.load_from_disk(str(tmp_path / "out"))
    assert {name: found.features[name] for name in kinds} == dict(kinds)
    assert found[7]["image"].getpixel((0, 0)) == (7, 0, 0)
    assert found["label"] == columns["label"]
    # And our own reader reads what it wrote.
    np.testing.assert_array_equal(open_source(tmp_path / "out").label, names)


def kind(name):
    import datasets

    return datasets.Value(name)


def test_a_data_set_has_a_card_and_a_list_of_changes(run, tmp_path):
    made = export_run(run.folder, tmp_path / "o", "huggingface")
    inside = sorted(path.name for path in (tmp_path / "o").iterdir())
    assert inside == [
        *("README.md", "changes.csv", "data-00000-of-00001.arrow"),
        *("dataset_info.json", "state.json"),
    ]
    assert made.changes == tmp_path / "o" / "changes.csv"
    assert json.loads((tmp_path / "o" / "state.json").read_text())["_split"] is None
    with pytest.raises(InputError, match="already exists"):
        export_run(run.folder, tmp_path / "o", "huggingface")


def test_an_export_that_fails_leaves_no_folder(run, tmp_path, monkeypatch):
    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("kspr.runs.export.data_card", fail)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(KeyboardInterrupt):
        export_run(run.folder, tmp_path / "o", "huggingface")
    assert sorted(tmp_path.iterdir()) == before


def test_a_folder_of_images_is_not_made_a_table_without_them(tmp_path, run_of, names):
    at = [f"{k:02}.png" for k in range(N)]
    run = run_of(tmp_path / "photos", write_photos(tmp_path / "photos", names, at))
    with pytest.raises(InputError, match=r"Write them with --to imagefolder"):
        export_run(run.folder, tmp_path / "o", "huggingface")
    assert not (tmp_path / "o").exists()
