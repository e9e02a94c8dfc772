"""Opening paths and tables in memory, and what is refused."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kspr.sources.formats import FORMATS
from kspr.sources.opening import READERS, label_column, open_source, open_table
from kspr.sources.options import ReadOptions
from kspr.sources.records import row_digests
from kspr.sources.writing import write_table


def test_every_format_of_sources_has_a_reader():
    assert {known.name for known in FORMATS if known.is_source} == set(READERS)


def test_a_source_without_columns_has_no_table(tmp_path, features, picture):
    np.save(tmp_path / "x.npy", features)
    assert open_table(tmp_path / "x.npy") is None
    (tmp_path / "images" / "cat").mkdir(parents=True)
    (tmp_path / "images" / "cat" / "a.png").write_bytes(picture())
    assert open_table(tmp_path / "images") is None


@pytest.mark.parametrize(
    ("columns", "said", "expected"),
    [
        ("a,label", {}, "label"),
        ("a,species", {"label": "species"}, "species"),
        ("a,b", {}, "label"),
        ("a,Y", {"labels": Path("other.csv"), "label": "a"}, "Y"),
        ("a,label,y", {"labels": Path("other.csv")}, "kspr_label"),
    ],
)
def test_the_label_column_is_the_one_that_labels_come_from(tmp_path, columns, said, expected):
    (tmp_path / "x.csv").write_text(f"{columns}\n{'1,' * columns.count(',')}2\n")
    table = open_table(tmp_path / "x.csv")
    assert label_column(table, ReadOptions(**said), "x.csv") == expected


def test_what_cannot_be_read_is_refused(tmp_path, refusal):
    assert refusal(tmp_path / "none.csv").endswith("none.csv does not exist.")
    assert "<int> cannot be read. Pass a path, an Arrow table" in refusal(3)
    assert "<DataFrame> has a column that mixes types" in refusal(
        pd.DataFrame({"a": ["x", 1, b"y"], "y": [0, 1, 0]})
    )
    assert refusal(pa.table({"a": [1], "y": [0]}), label="z").startswith(
        "<Table> has no column 'z'"
    )
    (tmp_path / "x.doc").write_text("hello")
    assert "x.doc has no suffix that kspr knows. Use .npy" in refusal(tmp_path / "x.doc")
    (tmp_path / "x.pkl").write_bytes(b"\x80\x04")
    assert "x.pkl is a pickle, not a file that kspr can read" in refusal(tmp_path / "x.pkl")
    (tmp_path / "d.csv").mkdir()
    assert refusal(tmp_path / "d.csv").endswith("d.csv is a folder, not a CSV or TSV table.")


@pytest.mark.parametrize(
    ("name", "labels", "kept"),
    [
        ("x.parquet", ["x", None, " ", "y"], ["x", "y"]),
        ("x.csv", ["x", None, "nan", "y"], ["x", "y"]),
        ("x.csv", ["7", None, "", "8"], [7, 8]),
        ("x.jsonl", [7, None, None, 8], [7, 8]),
        ("x.arrow", [7.0, None, float("nan"), 8.0], [7, 8]),
        ("x.npz", [7.0, float("nan"), float("nan"), 8.0], [7, 8]),
        ("x.npz", ["x", "", "null", "y"], ["x", "y"]),
    ],
)
def test_rows_without_a_label_are_refused_or_listed(tmp_path, refusal, name, labels, kept):
    path, X = tmp_path / name, [1.0, 2.0, 3.0, 4.0]
    if name == "x.npz":
        np.savez(path, X=np.array(X)[:, None], y=np.array(labels))
    else:
        write_table(path, pa.table({"a": X, "label": labels}))
    assert refusal(path).endswith(
        "has no label in rows 1, 2. Fill them in, or leave these rows out with --missing drop."
    )
    found = open_source(path, ReadOptions(missing="drop"))
    assert found.unlabelled.tolist() == [1, 2]
    assert found.label[found.labelled()].tolist() == kept
    assert found.notes[-1] == "2 of 4 rows have no label and are left out."
    assert len(found) == 4
    assert open_source(path, unlabelled=True).label is None


@pytest.mark.parametrize("content", ["id,label\na,x\nc,\n", "id,label\na,x\n"])
def test_rows_that_a_file_of_labels_leaves_out_can_be_dropped(text_file, refusal, content):
    source = text_file("id,f\na,1\nc,2\n")
    labels = text_file(content, "y.csv")
    assert "y.csv has no label for 1 row of " in refusal(source, id="id", labels=labels)
    found = open_source(source, ReadOptions(id="id", labels=labels, missing="drop"))
    assert (found.unlabelled.tolist(), found.label[0]) == ([1], "x")


def test_labels_of_no_row_at_all_are_refused(text_file, refusal):
    path = text_file("a,label\n1,\n2,\n")
    assert "None of the 2 rows of " in refusal(path, missing="drop")


LABEL = st.text(st.characters(categories=("L",)), min_size=1, max_size=5).filter(
    lambda text: text.lower() not in {"nan", "null", "true", "false"}
)
NUMBERS = {
    "float32": st.floats(-(2.0**100), 2.0**100, width=32),
    "float64": st.floats(-1e30, 1e30),
    "int64": st.integers(-(2**60), 2**60),
    "bool": st.booleans(),
}


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_the_same_data_is_the_same_in_every_format(tmp_path, data):
    """Features, labels and digests do not depend on the format, nor on the stored precision."""
    rows = data.draw(st.integers(1, 12))
    kinds = data.draw(st.lists(st.sampled_from(sorted(NUMBERS)), min_size=1, max_size=4))
    columns = {
        f"f{i}": np.array(data.draw(st.lists(NUMBERS[kind], min_size=rows, max_size=rows)), kind)
        for i, kind in enumerate(kinds)
    }
    labels = data.draw(
        st.one_of(
            st.lists(LABEL, min_size=rows, max_size=rows),
            st.lists(st.integers(-5, 99), min_size=rows, max_size=rows),
            st.lists(st.booleans(), min_size=rows, max_size=rows),
        )
    )
    table = pa.table({**columns, "label": labels})
    write_every_format(tmp_path, table)
    found = {name: open_source(tmp_path / name, ReadOptions()) for name in WRITTEN}
    first = found["x.parquet"]
    digest = row_digests(first)
    for name, records in found.items():
        assert records.features.dtype == np.float32, name
        np.testing.assert_array_equal(records.features, first.features, err_msg=name)
        assert records.label.tolist() == labels, name
        np.testing.assert_array_equal(row_digests(records), digest, err_msg=name)


WRITTEN = ("x.parquet", "x.feather", "x.arrow", "x.csv", "p.csv", "x.tsv", "x.jsonl", "x.npz")


def write_every_format(folder, table):
    for name in ("x.parquet", "x.arrow", "x.csv", "x.tsv", "x.jsonl"):
        write_table(folder / name, table)
    pa.feather.write_feather(table, folder / "x.feather")
    # Another program's way to write numbers and truth values.
    table.to_pandas().to_csv(folder / "p.csv", index=False)
    X = np.column_stack([table[name].to_numpy() for name in table.column_names[:-1]])
    np.savez(folder / "x.npz", X=X, y=np.array(table["label"].to_pylist()))


def test_probabilities_may_stand_in_a_file_of_their_own(tmp_path, features, refusal):
    np.savez(tmp_path / "x.npz", X=features, y=np.arange(len(features)) % 2)
    P = np.full((len(features), 2), 0.5)
    np.save(tmp_path / "p.npy", P)
    found = open_source(tmp_path / "x.npz", ReadOptions(probabilities=str(tmp_path / "p.npy")))
    np.testing.assert_array_equal(found.probabilities, P)
    # In single precision, as in every format.
    assert found.probabilities.dtype == np.float32
    (note,) = found.notes
    assert note.endswith("x.npz in their order: neither has ids.")
    np.save(tmp_path / "s.npy", P[:3])
    said = str(tmp_path / "s.npy")
    assert "s.npy has 3." in refusal(tmp_path / "x.npz", probabilities=said)


def test_a_file_of_probabilities_says_that_it_has_no_ids(tmp_path, text_file):
    np.save(tmp_path / "p.npy", np.full((2, 2), 0.5))
    source = text_file("id,f,label\na,1,x\nb,2,y\n")
    found = open_source(source, ReadOptions(probabilities=str(tmp_path / "p.npy")))
    assert found.notes[-1].endswith("in their order: " + str(tmp_path / "p.npy") + " has no ids.")


def test_rows_without_a_label_may_have_probabilities_in_a_file(tmp_path, text_file):
    np.save(tmp_path / "p.npy", np.full((2, 2), 0.5))
    source, said = text_file("f,label\n1,x\n2,\n"), str(tmp_path / "p.npy")
    assert len(open_source(source, ReadOptions(probabilities=said), unlabelled=True)) == 2
    found = open_source(source, ReadOptions(probabilities=said, missing="drop"))
    assert found.unlabelled.tolist() == [1]
    assert len(found.probabilities) == 2


def test_probabilities_that_nothing_holds_are_never_ignored(tmp_path, features, refusal):
    np.save(tmp_path / "x.npy", features)
    labels = tmp_path / "y.txt"
    labels.write_text("a\nb\n" * (len(features) // 2))
    message = refusal(tmp_path / "x.npy", labels=labels, probabilities="p_*")
    assert message.endswith("npy file with one line per row; there is no file p_*.")
