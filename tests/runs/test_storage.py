"""A saved selection loads as it was, and nothing is overwritten or left behind."""

import json
import os
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kspr import SPR, InputError, KnockoffsSPR, Selection
from kspr._files import write_sealed
from kspr.selectors import PaperKnockoffsSPR


@pytest.fixture(scope="module")
def selection(digits40) -> Selection:
    names = np.array([f"digit {k}" for k in range(10)])
    return KnockoffsSPR(q=0.05).fit(digits40.X, names[digits40.y]).selection_


def test_saving_and_loading_changes_nothing(selection, tmp_path):
    loaded = Selection.load(selection.save(tmp_path / "run"))
    for name in (
        "label",
        "clean_mask",
        "doubt",
        "selection_time",
        "knockoff_label",
        "suggested_label",
        "cut_group",
        "classes",
    ):
        before, after = getattr(selection, name), getattr(loaded, name)
        assert before.dtype == after.dtype, name
        assert np.array_equal(before, after), name
    assert loaded.manifest == selection.manifest
    assert loaded.summary() == selection.summary()
    assert np.array_equal(loaded.at(0.1).clean_mask, selection.at(0.1).clean_mask)


def test_a_saved_selection_without_knockoffs_loads(digits40, tmp_path):
    selection = SPR().fit(digits40.X, digits40.y.astype(np.int16)).selection_
    loaded = Selection.load(selection.save(tmp_path / "spr"))
    assert loaded.knockoff_label is None
    assert loaded.label.dtype == np.int16
    assert repr(loaded) == repr(selection)


def test_an_existing_directory_is_not_overwritten_by_accident(selection, tmp_path):
    selection.save(tmp_path / "run")
    with pytest.raises(InputError, match="overwrite=True"):
        selection.save(tmp_path / "run")
    selection.at(0.2).save(tmp_path / "run", overwrite=True)
    assert Selection.load(tmp_path / "run").manifest.parameters["q"] == 0.2
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("dear")
    with pytest.raises(InputError, match="is not a saved selection"):
        selection.save(tmp_path / "photos", overwrite=True)
    assert (tmp_path / "photos" / "cat.jpg").read_text() == "dear"


def test_a_failed_save_leaves_nothing_behind(selection, tmp_path, monkeypatch):
    selection.save(tmp_path / "run")

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pyarrow.parquet.ParquetWriter.write_table", full)
    with pytest.raises(OSError, match="No space"):
        selection.at(0.2).save(tmp_path / "run", overwrite=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]
    assert Selection.load(tmp_path / "run").manifest.parameters["q"] == 0.05


@pytest.mark.parametrize("damage", ["missing", "truncated", "not json", "future"])
def test_what_is_no_selection_is_refused_in_a_sentence(selection, tmp_path, damage):
    folder = selection.save(tmp_path / "run")
    if damage == "missing":
        (folder / "cut_groups.parquet").unlink()
    elif damage == "truncated":
        whole = (folder / "samples.parquet").read_bytes()
        (folder / "samples.parquet").write_bytes(whole[: len(whole) // 2])
    elif damage == "not json":
        (folder / "manifest.json").write_text("{")
    else:
        about = json.loads((folder / "manifest.json").read_text())
        (folder / "manifest.json").write_text(json.dumps({**about, "format": 99}))
    with pytest.raises(InputError) as caught:
        Selection.load(folder)
    assert str(folder) in str(caught.value)
    assert not isinstance(caught.value, pa.ArrowInvalid)


def test_a_pipe_in_the_place_of_a_table_is_not_waited_for(selection, tmp_path):
    """Neither where the checksums leave it out."""
    run = selection.save(tmp_path / "run")
    (run / "noise.parquet").unlink()
    os.mkfifo(run / "noise.parquet")
    about = json.loads((run / "manifest.json").read_text())
    files = [name for name in about["checksums"] if name != "noise.parquet"]
    left = {name: value for name, value in about.items() if "checksum" not in name}
    write_sealed(run / "manifest.json", left, *files)
    with pytest.raises(InputError):
        Selection.load(run)


def test_damaged_pages_of_a_sealed_table_are_one_sentence(selection, tmp_path):
    """Another program may have written checksums that hold."""
    folder = selection.save(tmp_path / "run")
    about = json.loads((folder / "manifest.json").read_text())
    sums = about.pop("checksums")
    del about["checksum"]
    whole = (folder / "samples.parquet").read_bytes()
    (folder / "samples.parquet").write_bytes(whole[:40] + b"\xff" * 40 + whole[80:])
    write_sealed(folder / "manifest.json", about, *sums)
    with pytest.raises(InputError, match="cannot be read as a selection"):
        Selection.load(folder)


def test_copies_that_number_no_rows_are_refused_in_a_sentence(selection, tmp_path):
    wrong = replace(selection, duplicate_set=np.full(len(selection), len(selection)))
    with pytest.raises(InputError, match="copies must number sets of rows"):
        Selection.load(wrong.save(tmp_path / "run"))


def test_the_papers_doubt_is_read_back_from_its_statistic(digits40, tmp_path):
    """Files hold W: negative where a label is ahead of its knockoff."""
    fitted = PaperKnockoffsSPR(q=0.2).fit(digits40.X, digits40.y).selection_
    path = fitted.save(tmp_path / "paper")
    W = pq.read_table(path / "samples.parquet")["statistic"].to_numpy()
    assert ((W < 0) | np.isposinf(W)).all()
    loaded = Selection.load(path)
    np.testing.assert_array_equal(loaded.doubt, fitted.doubt)
    np.testing.assert_array_equal(loaded.at(0.3).clean_mask, fitted.at(0.3).clean_mask)
