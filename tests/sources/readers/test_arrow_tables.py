"""Arrow, Feather and Hugging Face folders: mapped, and read without the `datasets` package."""

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pytest

from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions
from kspr.sources.readers import _spill

INFO = {"info": {"features": {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}}}


def write_stream(table, path):
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


@pytest.fixture
def saved(tmp_path, picture):
    """A folder as `save_to_disk` makes it, in two shards."""
    folder = tmp_path / "saved"
    folder.mkdir()
    for shard in range(2):
        images = [{"bytes": picture(shard * 4 + i), "path": None} for i in range(4)]
        table = pa.table({"image": images, "label": [0, 1, 0, 1]})
        table = table.replace_schema_metadata({b"huggingface": json.dumps(INFO).encode()})
        write_stream(table, folder / f"data-{shard:05d}-of-00002.arrow")
    files = [{"filename": f"data-{shard:05d}-of-00002.arrow"} for shard in range(2)]
    (folder / "state.json").write_text(json.dumps({"_data_files": files}))
    (folder / "dataset_info.json").write_text(json.dumps({"features": INFO["info"]["features"]}))
    return folder


@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
def test_feather_is_read(tmp_path, table, features, names, compression):
    pa.feather.write_feather(table, tmp_path / "x.feather", compression=compression, chunksize=7)
    found = open_source(tmp_path / "x.feather", ReadOptions(id="key"))
    np.testing.assert_array_equal(found.features, features)
    np.testing.assert_array_equal(found.label, names)
    assert found.row_id[-1] == "row-29"
    assert found.reader == "arrow"


def test_arrow_streams_are_read(tmp_path, table, features):
    write_stream(table, tmp_path / "x.arrow")
    np.testing.assert_array_equal(
        open_source(tmp_path / "x.arrow", ReadOptions()).features, features
    )


def test_plain_arrow_is_mapped_not_loaded(tmp_path):
    texts = pa.table({"text": ["x" * 1000] * 20_000, "label": np.arange(20_000) % 2})
    write_stream(texts, tmp_path / "x.arrow")
    del texts
    before = pa.total_allocated_bytes()
    found = open_source(tmp_path / "x.arrow", ReadOptions())
    assert pa.total_allocated_bytes() - before < 2 << 20
    assert found.items[19_999] == "x" * 1000


def test_compressed_texts_beyond_memory_lie_in_a_file(tmp_path, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(_spill, "IN_MEMORY", 1 << 16)
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    texts = pa.table({"text": [f"{i:0100d}" for i in range(5000)], "label": np.arange(5000) % 2})
    pa.feather.write_feather(texts, tmp_path / "x.feather", compression="lz4", chunksize=500)
    found = open_source(tmp_path / "x.feather", ReadOptions())
    assert len(list(scratch.iterdir())) == 1
    assert [int(found.items[i]) for i in (4999, 0, 777)] == [4999, 0, 777]
    assert sum(map(len, found.items.content())) == 500_000
    del found
    assert list(scratch.iterdir()) == []


def test_saved_data_sets_are_read_with_their_class_names(saved):
    found = open_source(saved, ReadOptions())
    assert found.reader == "huggingface"
    assert found.label.tolist() == ["cat", "dog"] * 4
    assert found.items[6].getpixel((0, 0)) == (6, 0, 0)


def test_the_package_of_hugging_face_is_not_needed(saved):
    code = (
        "import sys; from pathlib import Path; sys.modules['datasets'] = None\n"
        "from kspr.sources.opening import open_source\n"
        f"print(len(open_source(Path({str(saved)!r}))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["8"]


def test_a_saved_dictionary_of_splits_is_a_question(tmp_path, saved, refusal):
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    message = refusal(tmp_path)
    assert "holds the splits 'train', 'test'. Name one, such as " in message
    assert message.endswith("train.")


def test_damage_is_refused(tmp_path, table, saved, refusal):
    pa.feather.write_feather(table, tmp_path / "x.feather")
    whole = (tmp_path / "x.feather").read_bytes()
    (tmp_path / "x.feather").write_bytes(whole[: len(whole) // 2])
    assert "x.feather cannot be read as an Arrow file; it may be cut" in refusal(
        tmp_path / "x.feather"
    )
    shard = saved / "data-00001-of-00002.arrow"
    shard.write_bytes(shard.read_bytes()[:-200])
    assert "data-00001-of-00002.arrow cannot be read as an Arrow file" in refusal(saved)
    shard.unlink()
    assert refusal(saved).endswith("data-00001-of-00002.arrow does not exist.")
    (saved / "state.json").write_text("{")
    assert "state.json cannot be read as JSON" in refusal(saved)


def test_class_numbers_without_names_are_refused(tmp_path, refusal):
    for value, complaint in ((2, "has the value 2 in row 1, but only 2"), (-1, "in row 1.")):
        table = pa.table({"a": [1.0, 2.0], "label": [0, value]})
        table = table.replace_schema_metadata({b"huggingface": json.dumps(INFO).encode()})
        write_stream(table, tmp_path / "x.arrow")
        assert complaint in refusal(tmp_path / "x.arrow")


def test_a_real_data_set_saved_to_disk(tmp_path, picture):
    datasets = pytest.importorskip("datasets", reason="Hugging Face datasets is not installed")
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"])}
    )
    images = [{"bytes": picture(i), "path": None} for i in range(5)]
    rows = {"image": images, "label": [0, 1, 0, 1, 0]}
    data = datasets.Dataset.from_dict(rows, features=features)
    data.save_to_disk(str(tmp_path / "saved"), num_shards=2)
    data.to_parquet(str(tmp_path / "x.parquet"))
    for source in (tmp_path / "saved", tmp_path / "x.parquet", data, data.with_format("torch")):
        found = open_source(source, ReadOptions())
        assert found.label.tolist() == ["cat", "dog", "cat", "dog", "cat"]
        assert found.items[3].getpixel((0, 0)) == (3, 0, 0)
    moved = open_source(data.select([4, 3]), ReadOptions())
    assert moved.label.tolist() == ["cat", "dog"]
    assert moved.items[0].getpixel((0, 0)) == (4, 0, 0)
