"""Labels from columns and arrays: numbers, names, and what is neither."""

import numpy as np
import pyarrow as pa
import pytest

from kspr.errors import InputError
from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions
from kspr.sources.readers import labels
from kspr.sources.readers.labels import (
    class_names,
    labels_from_array,
    labels_from_column,
    labels_with_gaps,
    texts_to_labels,
)


def test_text_is_a_number_only_if_every_row_is_one():
    assert texts_to_labels(np.array(["1", " 2", "3.0"]), "x").tolist() == [1, 2, 3]
    for odd in ("007", "1e3", "x", "1.5", "9" * 20):
        assert texts_to_labels(np.array(["1", odd]), "x").tolist() == ["1", odd]


def test_class_names_take_the_place_of_numbers_unless_one_has_none():
    codes = pa.chunked_array([[1, 0]])
    assert labels_from_column(codes, "x", ["cat", "dog"]).tolist() == ["dog", "cat"]
    with pytest.raises(InputError, match="has the value 1 in row 0, but only 1 class names"):
        labels_from_column(codes, "x", ["cat"])


@pytest.mark.parametrize("metadata", [{}, {b"huggingface": b"["}, {b"huggingface": b'{"info": 3}'}])
def test_class_names_that_cannot_be_read_are_none(metadata):
    assert class_names(metadata) == {}


def test_a_missing_label_is_named_by_its_row():
    for values in (np.array([1.0, np.nan]), np.array(["a", " "])):
        with pytest.raises(InputError, match="x has no label in row 1"):
            labels_from_array(values, "x")


def test_labels_that_are_not_utf8_are_refused(tmp_path, refusal, features):
    np.savez(tmp_path / "x.npz", X=features[:2], y=np.array([b"caf\xe9", b"x"]))
    assert "holds labels that are not UTF-8, such as b'caf\\xe9'. Save" in refusal(
        tmp_path / "x.npz"
    )


@pytest.mark.parametrize("huge", [1e30, -1e30, 2.0**60])
def test_numbers_beyond_whole_ones_stay_what_they_are(tmp_path, features, huge):
    np.savez(tmp_path / "x.npz", X=features[:2], y=np.array([huge, 1.0]))
    assert open_source(tmp_path / "x.npz").label.tolist() == [huge, 1.0]


def test_a_label_of_thirty_digits_is_a_text(text_file):
    path = text_file(f"a,y\n1,{10**30}\n2,5\n")
    assert open_source(path).label.tolist() == [str(10**30), "5"]


def test_one_long_id_takes_no_room_in_every_row(parquet_file, monkeypatch):
    monkeypatch.setattr("kspr.sources.readers.labels._WIDE", 1 << 20)
    ids = [f"r{i}" for i in range(2000)]
    ids[77] = "x" * 4000
    path = parquet_file({"id": ids, "a": np.arange(2000) / 7, "y": np.arange(2000) % 2})
    found = open_source(path, ReadOptions(id="id"))
    assert found.row_id.tolist() == ids
    assert np.asarray(found.row_id).nbytes < 100_000
    with pytest.raises(InputError, match="holds a text of 4,000 characters, not labels"):
        open_source(path, ReadOptions(label="id"))


def test_labels_without_a_row_are_refused(tmp_path, refusal, features):
    np.savez(tmp_path / "x.npz", X=features[:2], y=np.array(3))
    assert "Array 'y'" in refusal(tmp_path / "x.npz")


def test_labels_of_many_rows_are_labels_however_much_memory_their_texts_take(monkeypatch):
    # Beyond this, texts of ids are kept as objects; labels have few distinct values.
    monkeypatch.setattr(labels, "_WIDE", 10)
    column = pa.chunked_array([["cat", "dog"], ["dog"], ["cat"]])
    assert labels_from_column(column, "x").tolist() == ["cat", "dog", "dog", "cat"]
    with pytest.raises(InputError, match="x holds a text of 1,001 characters"):
        labels_from_column(pa.chunked_array([["cat", "d" * 1001]]), "x")


def test_the_row_without_a_label_is_named_where_texts_repeat():
    column = pa.chunked_array([["cat", "cat", "dog", " ", "cat"]])
    with pytest.raises(InputError, match="x has no label in row 3"):
        labels_from_column(column, "x")


def test_labels_of_a_dictionary_with_gaps_are_those_of_its_rows():
    label, empty = labels_with_gaps(pa.chunked_array([["dog", "cat"], ["dog", None, " "]]), "x")
    assert (label[:3].tolist(), empty.tolist()) == (["dog", "cat", "dog"], [3, 4])
    # Codes of other programs: a value may be nothing, or be used by no row.
    given = pa.DictionaryArray.from_arrays(pa.array([1, 0, 2, None]), ["b", "a", None, "unused"])
    label, empty = labels_with_gaps(pa.chunked_array([given]), "x")
    assert (label[:2].tolist(), empty.tolist()) == (["a", "b"], [2, 3])
    # Two texts may be one number.
    label, _ = labels_with_gaps(pa.chunked_array([["2", "10", "2.0"]]), "x", untyped=True)
    assert label.tolist() == [2, 10, 2]


def test_a_column_without_any_label_has_gaps_only():
    label, empty = labels_with_gaps(pa.chunked_array([["", None]]), "x")
    assert (len(label), empty.tolist()) == (2, [0, 1])
