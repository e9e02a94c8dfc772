"""The file of a run's rows: read back as it was, a part at a time, and refused if it is another."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kspr._files import write_parquet
from kspr.core.coded import AllRows
from kspr.runs.joining import RunRows
from kspr.runs.stored_rows import read_rows, row_tables

N = 10


def rows(row: np.ndarray) -> RunRows:
    ids = np.array([f"id {k}" for k in row])
    return RunRows(row, ids, np.arange(len(row), dtype=np.uint64) * 7, named=True)


@pytest.mark.parametrize("row", [np.arange(N), np.arange(N) * 3 + 2, np.array([0, 1, 2, 9])])
def test_rows_are_read_back_as_they_were(tmp_path, row, monkeypatch):
    monkeypatch.setattr("kspr.runs.stored_rows.ROWS_AT_ONCE", 3)
    made = rows(row)
    write_parquet(tmp_path / "rows.parquet", row_tables(made))
    found = read_rows(tmp_path / "rows.parquet", named=True, n=len(row))
    # All rows of a source take no memory: their numbers are their places.
    assert isinstance(found.row, AllRows) == (row[-1] == len(row) - 1)
    np.testing.assert_array_equal(np.asarray(found.row), row)
    np.testing.assert_array_equal(np.asarray(found.row_id), made.row_id)
    np.testing.assert_array_equal(np.asarray(found.digest), made.digest)


def test_ids_that_are_only_numbers_are_not_read(tmp_path):
    write_parquet(tmp_path / "rows.parquet", row_tables(rows(np.arange(N))))
    found = read_rows(tmp_path / "rows.parquet", named=False, n=N)
    np.testing.assert_array_equal(np.asarray(found.row_id), np.arange(N).astype(str))


SOUND = {
    "row": pa.array(np.arange(N)),
    "row_id": pa.array([f"id {k}" for k in range(N)]),
    "digest": pa.array(np.arange(N, dtype=np.uint64)),
}


@pytest.mark.parametrize(
    "change",
    [
        {"row": pa.array(np.zeros(N, dtype=np.int64))},
        {"row": pa.array(np.arange(N)[::-1])},
        {"row": pa.array(np.arange(N) - 1)},
        {"row": pa.array(np.arange(N) / 2)},
        {"row_id": pa.array(np.arange(N))},
        {"row_id": pa.array([None, *"abcdefghi"])},
        {"digest": pa.array(np.arange(N))},
    ],
)
def test_rows_of_another_kind_are_refused(tmp_path, change):
    pq.write_table(pa.table({**SOUND, **change}), tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match=f"rows.parquet does not fit the selection of {N} rows"):
        read_rows(tmp_path / "rows.parquet", named=True, n=N)


@pytest.mark.parametrize(("named", "n"), [(True, N + 1), (True, N - 1), ("yes", N), (1, N)])
def test_another_number_of_rows_is_refused(tmp_path, named, n):
    pq.write_table(pa.table(SOUND), tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match="does not fit"):
        read_rows(tmp_path / "rows.parquet", named=named, n=n)
