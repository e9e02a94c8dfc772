"""Numbers in single precision: exact, in memory or in a temporary file, from columns or lists."""

import errno
import os

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from kspr.sources import parts
from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions
from kspr.sources.readers import csv_tables, numpy_files, values
from kspr.sources.readers.values import as_single


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_what_is_exact_already_is_not_copied(dtype):
    array = np.ones((3, 2), dtype)
    assert as_single(array, "x")[0] is array


def test_numbers_too_large_are_refused_by_name_and_row(tmp_path, refusal, parquet_file):
    values = np.ones((5, 2))
    values[3, 1] = 1e200
    np.save(tmp_path / "x.npy", values)
    assert "x.npy must lie within 3.4e38, got 1e+200 in row 3. Scale" in refusal(tmp_path / "x.npy")
    table = {"a": values[:, 0], "b": values[:, 1], "y": np.arange(5)}
    message = refusal(parquet_file(table))
    assert message.startswith("Feature column 'b' of ")
    assert "got 1e+200 in row 3." in message


def test_columns_that_become_blurred_are_said(parquet_file):
    rng = np.random.default_rng(0)
    table = {"time": 1.7e9 + rng.random(50) * 100, "a": rng.random(50), "y": np.arange(50) % 2}
    note = open_source(parquet_file(table)).notes[-1]
    assert "the values of 'time' lie too close together for single precision." in note


def test_missing_and_infinite_numbers_pass_unchanged():
    array = np.array([[np.nan, 1.0], [np.inf, 2.0], [0.0, 3.0]])
    single, notes = as_single(array, "x")
    np.testing.assert_array_equal(single, array)
    assert notes == ()


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.float32()), pa.list_(pa.float32(), 4), pa.large_list(pa.float32())]
)
def test_a_list_column_is_features(parquet_file, features, kind):
    lists = pa.array(features.tolist(), kind)
    found = open_source(
        parquet_file({"emb": lists, "size": np.arange(30), "y": np.arange(30)}), ReadOptions()
    )
    np.testing.assert_array_equal(found.features, features)


@pytest.mark.parametrize("stored", ["float16", "float32", "float64", "int64", "uint8", "bool"])
def test_numbers_of_every_type_become_single_precision(parquet_file, stored):
    found = open_source(
        parquet_file({"a": np.arange(3).astype(stored), "y": [0, 1, 0]}), ReadOptions()
    )
    assert found.features.dtype == np.float32
    assert found.features[:, 0].tolist() == np.arange(3).astype(stored).tolist()


def test_nothing_in_a_list_is_nan(parquet_file):
    table = {"emb": [[1.0, None], [2.0, 3.0]], "y": [0, 1]}
    np.testing.assert_array_equal(
        open_source(parquet_file(table), ReadOptions()).features, [[1, np.nan], [2, 3]]
    )


@pytest.mark.parametrize("name", ["x.csv", "x.parquet", "x.npz", "x.feather"])
def test_a_full_disk_is_one_sentence(tmp_path, monkeypatch, refusal, name):
    values = np.arange(6000, dtype=np.float32).reshape(-1, 3)
    table = pa.table({**{f"f{i}": values[:, i] for i in range(3)}, "y": np.arange(2000) % 2})
    path = tmp_path / name
    if name == "x.csv":
        table.to_pandas().to_csv(path, index=False)
    elif name == "x.parquet":
        pq.write_table(table, path)
    elif name == "x.feather":
        pa.feather.write_feather(table, path)
    else:
        np.savez_compressed(path, X=values, y=np.arange(2000) % 2)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    few_bytes_in_memory(monkeypatch, 1 << 10)
    monkeypatch.setattr("tempfile.TemporaryFile", FullFile)
    message = refusal(path)
    assert message.startswith("There is no room for a temporary copy of the data. Free some space")
    assert list(scratch.iterdir()) == []


def few_bytes_in_memory(monkeypatch, count):
    for module in (csv_tables, numpy_files, values, parts):
        monkeypatch.setattr(module, "IN_MEMORY", count)


class FullFile:
    """A file on a full disk."""

    def write(self, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self):
        pass


def test_compressed_arrays_beyond_memory_are_unpacked_to_a_file(tmp_path, monkeypatch, features):
    np.savez_compressed(tmp_path / "x.npz", X=features, y=np.arange(30) % 2)
    few_bytes_in_memory(monkeypatch, 64)
    found = open_source(tmp_path / "x.npz", ReadOptions())
    assert isinstance(found.features, np.memmap)
    np.testing.assert_array_equal(found.features, features)


def test_csv_features_beyond_memory_lie_in_a_file(tmp_path, monkeypatch):
    values = np.arange(40_000, dtype=np.float32)
    text = "\n".join(["a,text,y", *(f"{v:.0f},word {v:.0f},{int(v) % 2}" for v in values)])
    (tmp_path / "x.csv").write_text(text)
    few_bytes_in_memory(monkeypatch, 1 << 12)
    monkeypatch.setattr("kspr.sources.readers.csv_tables.BLOCK_BYTES", 1 << 14)
    found = open_source(tmp_path / "x.csv", ReadOptions(features="a", text="text"))
    assert isinstance(found.features, np.memmap)
    np.testing.assert_array_equal(found.features[:, 0], values)
    assert found.items[39_999] == "word 39999"


def test_csv_features_grow_in_memory(tmp_path, monkeypatch):
    values = np.arange(40_000, dtype=np.float32)
    (tmp_path / "x.csv").write_text("\n".join(["a,y", *(f"{v:.0f},{int(v) % 2}" for v in values)]))
    monkeypatch.setattr("kspr.sources.readers.csv_tables.BLOCK_BYTES", 1 << 14)
    found = open_source(tmp_path / "x.csv", ReadOptions())
    assert not isinstance(found.features, np.memmap)
    np.testing.assert_array_equal(found.features[:, 0], values)


def test_compressed_texts_lie_in_a_file_without_a_name(tmp_path, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    texts = pa.table({"text": [f"{i:0100d}" for i in range(5000)], "label": np.arange(5000) % 2})
    pa.feather.write_feather(texts, tmp_path / "x.feather", compression="lz4", chunksize=500)
    before = pa.total_allocated_bytes()
    found = open_source(tmp_path / "x.feather", ReadOptions())
    assert pa.total_allocated_bytes() - before < 100_000
    # Gone with this process, even if it is killed.
    assert list(scratch.iterdir()) == []
    assert [int(found.items[i]) for i in (4999, 0, 777)] == [4999, 0, 777]
    assert sum(map(len, found.items.content())) == 500_000
