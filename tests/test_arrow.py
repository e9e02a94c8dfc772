"""Columns of Arrow tables as arrays: what Arrow itself gives, without pandas."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kspr._arrow import as_array, parquet_names, read_parquet

VALUES = {
    pa.int8(): st.integers(-100, 100),
    pa.int64(): st.integers(-(2**60), 2**60),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(max_size=3),
    pa.large_string(): st.sampled_from(["a", "b", ""]),
    pa.date32(): st.dates(),
}


@pytest.mark.parametrize("kind", VALUES, ids=str)
@given(data=st.data())
def test_arrays_are_those_of_arrow_for_any_chunks(kind, data):
    chunks = data.draw(st.lists(st.lists(VALUES[kind], max_size=12), min_size=1, max_size=4))
    column = pa.chunked_array(chunks, kind)
    cut = data.draw(st.integers(0, len(column)))
    for part in (column, column.slice(cut), column.slice(0, cut)):
        expected = part.to_numpy()
        found = as_array(part)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_gaps_are_as_arrow_gives_them():
    column = pa.chunked_array([["a", None], ["b"]])
    assert as_array(column).tolist() == ["a", None, "b"]


def test_reading_a_table_does_not_load_pandas(tmp_path):
    table = pa.table({"n": [1, 2], "x": [0.5, 1.5], "b": [True, False], "t": ["a", "b"]})
    pq.write_table(table, tmp_path / "t.parquet")
    assert read_parquet(tmp_path / "t.parquet").equals(table)
    assert read_parquet(tmp_path / "t.parquet", ["x"]).column_names == ["x"]
    code = (
        "import sys; from pathlib import Path; from kspr._arrow import as_array, read_parquet\n"
        "table = read_parquet(Path(sys.argv[1]))\n"
        "for column in table.columns: as_array(column)\n"
        "assert 'pandas' not in sys.modules and 'pyarrow.dataset' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "t.parquet")], check=True)


@pytest.mark.parametrize("n_files", [1, 3])
def test_a_folder_of_files_is_one_table_in_the_order_of_their_names(tmp_path, n_files):
    whole = pa.table({"n": np.arange(30), "x": np.arange(30) / 2})
    size = 30 // n_files
    for k in reversed(range(n_files)):
        part = whole.slice(k * size, size)
        pq.write_table(part, tmp_path / f"part-{k}.parquet", row_group_size=4)
    assert parquet_names(tmp_path) == ["n", "x"]
    assert read_parquet(tmp_path).equals(whole)
    assert read_parquet(tmp_path, ["x"]).equals(whole.select(["x"]))
