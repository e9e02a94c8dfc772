"""Damage of any kind ends in one sentence: no traceback, no crash, no temporary file."""

import errno
import os
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from kspr.errors import InputError
from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions
from kspr.sources.readers import _spill


@pytest.fixture
def files(tmp_path, table, features, names, picture):
    images = pa.table({"img": [picture(i) for i in range(30)], "label": names})
    lists = pa.table({"emb": features.tolist(), "label": names})
    pq.write_table(table, tmp_path / "a.parquet")
    pq.write_table(images, tmp_path / "b.parquet", row_group_size=7)
    pa.feather.write_feather(table, tmp_path / "a.feather", compression="lz4")
    pa.feather.write_feather(lists, tmp_path / "b.feather", compression="uncompressed")
    pa.feather.write_feather(images, tmp_path / "c.arrow", compression="uncompressed")
    np.savez(tmp_path / "a.npz", X=features, y=names)
    np.savez_compressed(tmp_path / "b.npz", X=features, y=names)
    np.save(tmp_path / "a.npy", features)
    table.to_pandas().to_csv(tmp_path / "a.csv", index=False)
    lists.to_pandas().to_csv(tmp_path / "b.csv", index=False)
    return sorted(tmp_path.iterdir())


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """Return the content with a few bytes changed, and sometimes without its end."""
    changed = bytearray(content)
    for place in rng.integers(len(changed), size=rng.integers(1, 6)):
        changed[place] = rng.integers(256)
    return bytes(changed[: rng.integers(len(changed))] if rng.random() < 0.3 else changed)


def use(path):
    """Read everything that a file has to offer."""
    found = open_source(path, ReadOptions())
    if found.features is not None:
        np.asarray(found.features).tobytes()
    for row in range(len(found.items or ())):
        with suppress(InputError):
            found.items[row]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(25))
def test_random_damage_is_survived_or_refused(files, seed):
    rng = np.random.default_rng(seed)
    for path in files:
        path.write_bytes(damaged(path.read_bytes(), rng))
        with suppress(InputError):
            use(path)


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
    monkeypatch.setattr(_spill, "IN_MEMORY", 1 << 10)
    monkeypatch.setattr("kspr.sources.readers.arrays.IN_MEMORY", 1 << 10)
    monkeypatch.setattr(_spill, "scratch_file", full_file)
    monkeypatch.setattr("kspr.sources.readers.arrays.scratch_file", full_file)
    message = refusal(path)
    assert message.startswith("There is no room for a temporary copy of the data. Free some space")
    assert list(scratch.iterdir()) == []


def full_file():
    return FullFile()


class FullFile:
    """A file on a full disk."""

    def write(self, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self):
        pass


def test_compressed_arrays_beyond_memory_are_unpacked_to_a_file(tmp_path, monkeypatch, features):
    np.savez_compressed(tmp_path / "x.npz", X=features, y=np.arange(30) % 2)
    monkeypatch.setattr("kspr.sources.readers.arrays.IN_MEMORY", 64)
    found = open_source(tmp_path / "x.npz", ReadOptions())
    assert isinstance(found.features, np.memmap)
    np.testing.assert_array_equal(found.features, features)


def test_csv_features_beyond_memory_lie_in_a_file(tmp_path, monkeypatch):
    values = np.arange(40_000, dtype=np.float32)
    text = "\n".join(["a,text,y", *(f"{v:.0f},word {v:.0f},{int(v) % 2}" for v in values)])
    (tmp_path / "x.csv").write_text(text)
    monkeypatch.setattr(_spill, "IN_MEMORY", 1 << 12)
    monkeypatch.setattr("kspr.sources.readers._csv_table._BLOCK", 1 << 14)
    found = open_source(tmp_path / "x.csv", ReadOptions(features="a", text="text"))
    assert isinstance(found.features, np.memmap)
    np.testing.assert_array_equal(found.features[:, 0], values)
    assert found.items[39_999] == "word 39999"


def test_csv_features_grow_in_memory(tmp_path, monkeypatch):
    values = np.arange(40_000, dtype=np.float32)
    (tmp_path / "x.csv").write_text("\n".join(["a,y", *(f"{v:.0f},{int(v) % 2}" for v in values)]))
    monkeypatch.setattr("kspr.sources.readers._csv_table._BLOCK", 1 << 14)
    found = open_source(tmp_path / "x.csv", ReadOptions())
    assert not isinstance(found.features, np.memmap)
    np.testing.assert_array_equal(found.features[:, 0], values)
