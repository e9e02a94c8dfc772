"""Labels of several annotators are found in wide and long tables, and are no features."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kspr.errors import InputError
from kspr.sources.joining import long_table, read_vote_columns
from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions

WIDE = ReadOptions(annotators="rater_*")
WANTED = {
    (0, "rater_a", "cat"),
    (0, "rater_b", "dog"),
    (1, "rater_b", "dog"),
    (2, "rater_a", "cat"),
}


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text("id,x1,x2,rater_a,rater_b\nu,1,2,cat,dog\nv,3,4,,dog\nw,5,6,cat,\n")
    return path


@pytest.fixture
def plain(tmp_path):
    path = tmp_path / "plain.csv"
    path.write_text("id,x1,x2\nu,1,2\nv,3,4\nw,5,6\n")
    return path


def votes_in(path, options=WIDE):
    found = read_vote_columns(open_source(path, options, unlabelled=True), options)
    return set(zip(found.row.tolist(), found.annotator.tolist(), found.label.tolist(), strict=True))


def long(tmp_path, text):
    (tmp_path / "long.csv").write_text(text)
    return ReadOptions(labels=tmp_path / "long.csv", annotators="worker")


def test_a_column_for_each_annotator(csv):
    assert votes_in(csv) == WANTED
    records = open_source(csv, WIDE, unlabelled=True)
    assert records.features.shape == (3, 2)
    assert records.columns["annotators"] == ("rater_a", "rater_b")


def test_numbers_are_labels_and_no_features(tmp_path):
    path = tmp_path / "numbers.csv"
    path.write_text("x1,x2,rater_a,rater_b\n1,2,0,1\n3,4,,1\n5,6,0,\n")
    assert votes_in(path) == {
        (0, "rater_a", 0),
        (0, "rater_b", 1),
        (1, "rater_b", 1),
        (2, "rater_a", 0),
    }
    assert open_source(path, WIDE, unlabelled=True).features.shape == (3, 2)


def test_numbers_beside_texts_are_texts(tmp_path):
    path = tmp_path / "mixed.csv"
    path.write_text("x1,rater_a,rater_b\n1,0,cat\n3,,cat\n")
    assert votes_in(path) == {(0, "rater_a", "0"), (0, "rater_b", "cat"), (1, "rater_b", "cat")}


def test_parquet_has_types_of_its_own(tmp_path):
    columns = {"x": [1.0, 2.0], "rater_a": [3.0, None], "rater_b": pa.array([4, 3], pa.int8())}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    options = ReadOptions(annotators="rater_*", features="x")
    assert votes_in(tmp_path / "t.parquet", options) == {
        (0, "rater_a", 3),
        (0, "rater_b", 4),
        (1, "rater_b", 3),
    }


def test_a_line_per_label(plain, tmp_path):
    lines = ["id,worker,label", "u,rater_a,cat", "u,rater_b,dog", "v,rater_b,dog", "w,rater_a,cat"]
    options = long(tmp_path, "\n".join([*lines, "v,rater_a,", "nowhere,rater_a,cat"]))
    assert long_table(options) is not None
    assert votes_in(plain, options) == WANTED
    found = read_vote_columns(open_source(plain, options, unlabelled=True), options)
    assert found.notes == (f"1 line of {options.labels} are about no row of {plain}.",)


def test_rows_without_ids_are_numbered(tmp_path):
    np.savez(tmp_path / "x.npz", X=np.eye(3))
    options = long(tmp_path, "row,worker,label\n0,ann,cat\n0,bob,dog\n2,ann,cat\n1,bob,dog\n")
    assert votes_in(tmp_path / "x.npz", options) == {
        (0, "ann", "cat"),
        (0, "bob", "dog"),
        (2, "ann", "cat"),
        (1, "bob", "dog"),
    }


def test_the_digest_knows_labels_and_not_their_order(plain, tmp_path):
    lines = ["u,ann,cat", "v,ann,dog", "v,bob,dog"]

    def digest(chosen):
        options = long(tmp_path, "\n".join(["id,worker,label", *chosen]))
        records = open_source(plain, options, unlabelled=True)
        return read_vote_columns(records, options).digest(records.row_id)

    assert digest(lines) == digest(lines[::-1])
    assert digest(lines) != digest(["u,ann,dog", *lines[1:]])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id,person,label\nu,ann,cat\n", "has no column 'worker'|no 'worker'|worker"),
        ("id,worker,what\nu,ann,cat\n", "has no column that is named like labels"),
        ("worker,label\nann,cat\n", "has no column that says which row a label is of"),
        ("id,worker,label\nx,ann,cat\n", "has no label for any row"),
    ],
)
def test_what_a_long_table_lacks_is_named(plain, tmp_path, text, words):
    options = long(tmp_path, text)
    records = open_source(plain, ReadOptions(), unlabelled=True)
    with pytest.raises(InputError, match=words):
        read_vote_columns(records, options)


def test_a_pattern_that_fits_no_column_is_named(csv):
    with pytest.raises(InputError, match="judge"):
        open_source(csv, ReadOptions(annotators="judge_*"), unlabelled=True)


def test_arrays_have_no_columns(tmp_path):
    np.savez(tmp_path / "x.npz", X=np.eye(3))
    with pytest.raises(InputError, match="has no columns"):
        votes_in(tmp_path / "x.npz")
