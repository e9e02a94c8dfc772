"""Rows of a source, and the digests of their content."""

import numpy as np
import pytest

from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions
from kspr.sources.records import ImageFiles, Records, content_digests, number_texts, row_digests

X = np.random.default_rng(0).standard_normal((7, 3)).astype(np.float32)


def test_records_are_as_many_as_their_ids(tmp_path):
    assert len(Records(tmp_path, "npy", np.array(["a", "b"]))) == 2


@pytest.mark.parametrize("kind", [np.float32, np.float64, ">f4"])
def test_equal_features_have_equal_digests_in_any_type(tmp_path, kind):
    found = row_digests(Records(tmp_path, "npy", np.arange(7), features=X.astype(kind)))
    assert found.dtype == np.uint64
    np.testing.assert_array_equal(found, content_digests(row.tobytes() for row in X))
    assert len(np.unique(found)) == 7


def test_digests_do_not_depend_on_the_block_size(tmp_path, monkeypatch):
    records = Records(tmp_path, "npy", np.arange(7), features=X)
    whole = row_digests(records)
    monkeypatch.setattr("kspr.sources.records.BLOCK_BYTES", 24)
    np.testing.assert_array_equal(row_digests(records), whole)


def test_the_digest_of_an_image_is_that_of_its_file(tmp_path, picture):
    names = np.array(["a.png", "gone.png"])
    (tmp_path / "a.png").write_bytes(picture(10))
    records = Records(tmp_path, "x", names, items=ImageFiles(tmp_path, names))
    np.testing.assert_array_equal(row_digests(records), content_digests([picture(10), b""]))


def test_a_row_has_the_same_content_alone_and_in_order(tmp_path, picture):
    (tmp_path / "a.png").write_bytes(picture(10))
    (tmp_path / "i.csv").write_text("path,label\na.png,0\ngone.png,1\n")
    (tmp_path / "t.csv").write_text("text,label\nhello,0\n,1\n")
    for name, column in (("i.csv", {"image": "path"}), ("t.csv", {"text": "text"})):
        items = open_source(tmp_path / name, ReadOptions(**column)).items
        assert [items.stored(row) for row in range(2)] == list(items.content())


@pytest.mark.parametrize(
    ("header", "options", "named"),
    [
        ("f,label", {}, False),
        ("id,f,label", {}, True),
        ("ID,f,label", {}, True),
        ("name,f,label", {}, False),
        ("name,f,label", {"id": "name"}, True),
        ("text,label", {}, False),
        ("path,label", {}, True),
    ],
)
def test_a_source_is_named_if_it_holds_the_ids(tmp_path, header, options, named):
    names = header.split(",")
    cells = {"f": ["1", "2"], "label": ["a", "b"]}
    lines = [",".join(cells.get(name, ["p", "q"])[k] for name in names) for k in range(2)]
    (tmp_path / "x.csv").write_text("\n".join([header, *lines]))
    found = open_source(tmp_path / "x.csv", ReadOptions(**options))
    assert found.named is named
    assert found.row_id.tolist() == (["p", "q"] if named else ["0", "1"])


@pytest.mark.parametrize("ids", [["p", "p"], ["p", ""]])
def test_a_column_that_is_only_named_like_ids_must_identify_rows(tmp_path, ids):
    import pyarrow as pa
    import pyarrow.parquet as pq

    ids = [name or None for name in ids]
    pq.write_table(pa.table({"id": ids, "f": [1.0, 2.0], "label": [0, 1]}), tmp_path / "x.parquet")
    found = open_source(tmp_path / "x.parquet")
    assert not found.named
    assert found.row_id.tolist() == ["0", "1"]


def test_rows_of_probabilities_alone_are_told_by_these(tmp_path):
    found = row_digests(Records(tmp_path, "csv", np.arange(7), probabilities=X))
    np.testing.assert_array_equal(found, content_digests(row.tobytes() for row in X))
    both = Records(tmp_path, "csv", np.arange(7), features=2 * X, probabilities=X)
    np.testing.assert_array_equal(
        row_digests(both), content_digests((2 * row).tobytes() for row in X)
    )


def test_numbers_are_texts_of_as_few_characters_as_they_have():
    ids = number_texts(np.array([0, 9, 10, 200]))
    assert ids.tolist() == ["0", "9", "10", "200"]
    assert ids.dtype == "<U3"
    assert number_texts(np.arange(0)).tolist() == []
