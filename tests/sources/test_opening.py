"""Opening paths and tables in memory, and what is refused."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from kspr.sources.formats import FORMATS
from kspr.sources.opening import READERS, label_column, open_source, open_table
from kspr.sources.options import ReadOptions
from kspr.sources.readers.table_files import TABLES
from kspr.sources.readers.tables import read_table


def test_every_format_of_sources_has_a_reader():
    assert {known.name for known in FORMATS if known.is_source} == set(READERS)


def test_every_table_format_can_be_opened_with_all_columns():
    """Whatever is read as a table is exported as one."""
    as_tables = {name for name, reader in READERS.items() if reader is read_table}
    assert as_tables - {"manifest"} == set(TABLES)


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


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    values=arrays.arrays(
        np.float32,
        st.tuples(st.integers(1, 12), st.integers(1, 4)),
        elements=st.floats(-1e6, 1e6, width=32),
    ),
    data=st.data(),
)
def test_every_format_gives_the_same_rows(tmp_path, values, data):
    label = st.text(st.characters(categories=("L",)), min_size=1, max_size=5).filter(
        lambda text: text.lower() not in {"nan", "null"}
    )
    labels = data.draw(st.lists(label, min_size=len(values), max_size=len(values)))
    table = pa.table({**{f"f{i}": column for i, column in enumerate(values.T)}, "label": labels})
    pq.write_table(table, tmp_path / "x.parquet")
    pa.feather.write_feather(table, tmp_path / "x.feather")
    table.to_pandas().to_csv(tmp_path / "x.csv", index=False)
    np.savez(tmp_path / "x.npz", X=values, y=np.array(labels))
    for name in ("x.parquet", "x.feather", "x.csv", "x.npz"):
        found = open_source(tmp_path / name, ReadOptions())
        np.testing.assert_array_equal(found.features, values)
        assert found.label.tolist() == labels


def test_probabilities_may_stand_in_a_file_of_their_own(tmp_path, features, refusal):
    np.savez(tmp_path / "x.npz", X=features, y=np.arange(len(features)) % 2)
    P = np.full((len(features), 2), 0.5)
    np.save(tmp_path / "p.npy", P)
    found = open_source(tmp_path / "x.npz", ReadOptions(probabilities=str(tmp_path / "p.npy")))
    np.testing.assert_array_equal(found.probabilities, P)
    np.save(tmp_path / "s.npy", P[:3])
    said = str(tmp_path / "s.npy")
    assert "s.npy has 3." in refusal(tmp_path / "x.npz", probabilities=said)
