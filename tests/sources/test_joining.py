"""Labels of a file, of one person or of several, joined to rows by id or by order."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kspr.errors import InputError
from kspr.sources.joining import long_table, places_of, read_vote_columns
from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions

IDS = ["p1", "p2", "p3", "p4"]
LABELS = {"p1": "a", "p2": "b", "p3": "a", "p4": "c"}


@pytest.fixture
def source(tmp_path):
    (tmp_path / "x.csv").write_text("id,f\n" + "".join(f"{k},{n}\n" for n, k in enumerate(IDS)))
    return tmp_path / "x.csv"


def labels_in(path, header, rows):
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def read(source, labels, **options):
    return open_source(source, ReadOptions(labels=labels, **options))


@given(st.lists(st.text(max_size=3), unique=True, max_size=9), st.lists(st.text(max_size=3)))
def test_places_lead_to_equal_ids(among, ids):
    found = places_of(np.array(ids, dtype=str), np.array(among, dtype=str))
    # Arrays of text have no characters "\0" at their end.
    among, ids = ([text.rstrip("\0") for text in texts] for texts in (among, ids))
    assert all(
        (among[k] == name) if k >= 0 else (name not in among)
        for k, name in zip(found, ids, strict=True)
    )


def test_images_may_be_named_without_their_suffixes(tmp_path):
    for name in ("a/1.png", "a/2.JPG", "b.c/3.png"):
        (tmp_path / "p" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "p" / name).write_bytes(b"")
    rows = ["b.c/3,cat", "a/1,dog", "a/2,cat"]
    found = read(tmp_path / "p", labels_in(tmp_path / "y.csv", "id,label", rows))
    assert dict(zip(found.row_id.tolist(), found.label.tolist(), strict=True)) == {
        **{"a/1.png": "dog", "a/2.JPG": "cat", "b.c/3.png": "cat"},
    }
    # Lines that are counted from 0 are not the images 1.png and 2.png.
    (tmp_path / "p" / "a").rename(tmp_path / "q")
    counted = labels_in(tmp_path / "z.csv", "id,label", ["0,cat", "1,dog"])
    assert "in their order" in read(tmp_path / "q", counted).notes[-1]
    assert read(tmp_path / "q", labels_in(counted, "id,label", ["2,cat", "1,dog"])).notes == ()
    (tmp_path / "q").rename(tmp_path / "p" / "a")
    # One name with its suffix is enough to tell that names have suffixes.
    rows[1] = "a/1.png,dog"
    found = read(tmp_path / "p", labels_in(tmp_path / "y.csv", "id,label", rows), missing="drop")
    assert found.labelled().tolist() == [0]


@pytest.mark.parametrize("column", ["id", "ID", "index", "path"])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_the_order_of_a_file_with_ids_does_not_matter(source, tmp_path, column, kind):
    order = [2, 0, 3, 1]
    ids = [IDS[k] for k in order]
    table = pa.table({column: ids, "label": [LABELS[k] for k in ids]})
    path = tmp_path / f"y.{kind}"
    if kind == "csv":
        labels_in(path, f"{column},label", [f"{k},{LABELS[k]}" for k in ids])
    else:
        pq.write_table(table, path)
    found = read(source, path)
    assert found.label.tolist() == list("abac")
    assert found.notes[1:] == ()


def test_the_name_that_ids_have_in_the_source_is_known_in_the_file(tmp_path):
    (tmp_path / "x.csv").write_text("photo,f\np1,1\np2,2\n")
    path = labels_in(tmp_path / "y.csv", "photo,label", ["p2,b", "p1,a"])
    assert read(tmp_path / "x.csv", path, id="photo").label.tolist() == ["a", "b"]


def test_images_are_joined_by_their_paths(tmp_path, picture):
    for name in ("b/1.png", "a/2.png"):
        (tmp_path / "photos" / name).parent.mkdir(parents=True)
        (tmp_path / "photos" / name).write_bytes(picture(3))
    path = labels_in(tmp_path / "y.csv", "file,label", ["b/1.png,bee", "a/2.png,ant"])
    found = read(tmp_path / "photos", path)
    assert dict(zip(found.row_id.tolist(), found.label.tolist(), strict=True)) == {
        "a/2.png": "ant",
        "b/1.png": "bee",
    }


def test_row_numbers_are_ids_where_the_source_has_no_others(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(3))
    path = labels_in(tmp_path / "y.csv", "row,label", ["2,c", "0,a", "1,b"])
    found = read(tmp_path / "x.npy", path)
    assert found.label.tolist() == list("abc")
    assert found.notes[1:] == ()


def test_lines_about_other_rows_are_counted(source, tmp_path):
    rows = [f"{k},{LABELS[k]}" for k in IDS]
    path = labels_in(tmp_path / "y.csv", "id,label", ["other,z", *reversed(rows), "more,z"])
    found = read(source, path)
    assert found.label.tolist() == list("abac")
    assert found.notes[1:] == (f"2 rows of {path} are about no row of {source}.",)


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        (["p1,a", "p2,b"], r"no label for 2 rows of .*x.csv: 'p3', 'p4'\. Add them"),
        (["p1,a", "p1,b", "p2,b", "p3,a", "p4,c"], r"Column 'id' of .* has 'p1' more than"),
        (["q1,a", "q2,b", "q3,a", "q4,c"], r"Column 'id' of .* has none of the ids of .*'p1'"),
    ],
)
def test_missing_repeated_and_unknown_ids_are_named(source, tmp_path, rows, complaint):
    with pytest.raises(InputError, match=complaint):
        read(source, labels_in(tmp_path / "y.csv", "id,label", rows))


@pytest.mark.parametrize("first", [0, 1])
def test_a_column_that_counts_the_lines_is_no_id(source, tmp_path, first):
    rows = [f"{first + k},{LABELS[name]}" for k, name in enumerate(IDS)]
    path = labels_in(tmp_path / "y.csv", "id,label", rows)
    found = read(source, path)
    assert found.label.tolist() == list("abac")
    assert "in their order" in found.notes[1]


def test_joining_by_order_is_said(source, tmp_path):
    np.save(tmp_path / "x.npy", np.eye(4))
    (tmp_path / "y.txt").write_text("a\nb\na\nc\n")
    named = labels_in(tmp_path / "named.csv", "id,label", [f"{k},{LABELS[k]}" for k in IDS])
    said = "The labels of {} were given to the rows of {} in their order: {}."
    for rows, labels, why in (
        (tmp_path / "x.npy", tmp_path / "y.txt", "neither has ids"),
        (source, tmp_path / "y.txt", f"{tmp_path / 'y.txt'} has no ids"),
        (tmp_path / "x.npy", named, f"{tmp_path / 'x.npy'} has no ids"),
    ):
        found = read(rows, labels)
        assert found.label.tolist() == list("abac")
        assert found.notes[-1:] == (said.format(labels, rows, why),)
    (tmp_path / "y.txt").write_text("a\nb\n")
    with pytest.raises(InputError, match=r"has 4 rows but .*y\.txt has 2 labels"):
        read(source, tmp_path / "y.txt")


def test_numbers_in_another_order_are_refused_where_nothing_joins_them(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(3))
    path = labels_in(tmp_path / "y.csv", "id,label", ["3,c", "1,a", "2,b"])
    with pytest.raises(InputError, match=r"'id' .* is not in ascending order, and .*x\.npy has no"):
        read(tmp_path / "x.npy", path)


def test_a_label_file_without_rows_is_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(3))
    empty = pa.table({"id": pa.array([], pa.string()), "label": pa.array([], pa.string())})
    pq.write_table(empty, tmp_path / "y.parquet")
    with pytest.raises(InputError):
        read(tmp_path / "x.npy", tmp_path / "y.parquet")


def test_groups_beside_the_labels_are_joined_with_them(source, tmp_path):
    rows = [f"{name},{label},{label}-{name < 'p3'}" for name, label in LABELS.items()]
    labels = labels_in(tmp_path / "y.csv", "id,label,patient", rows[::-1])
    assert read(source, labels, groups="patient").groups.tolist() == [
        *("a-True", "b-True", "a-False", "c-False")
    ]
    np.save(tmp_path / "x.npy", np.eye(4))
    by_order = read(tmp_path / "x.npy", labels, groups="patient")
    assert by_order.groups.tolist() == ["c-False", "a-False", "b-True", "a-True"]


def test_groups_of_the_source_go_before_those_beside_the_labels(tmp_path):
    (tmp_path / "x.csv").write_text("id,f,patient\np1,1,s\np2,2,t\n")
    labels = labels_in(tmp_path / "y.csv", "id,label,patient", ["p2,b,u", "p1,a,u"])
    found = read(tmp_path / "x.csv", labels, groups="patient")
    assert found.groups.tolist() == ["s", "t"]
    assert found.features.shape == (2, 1)


def test_groups_that_are_nowhere_are_refused(source, tmp_path):
    labels = labels_in(tmp_path / "y.csv", "id,label", [f"{k},{v}" for k, v in LABELS.items()])
    with pytest.raises(InputError, match=r"no column or array 'patient' of groups, and neither"):
        read(source, labels, groups="patient")


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
