"""Arrow and Feather files: mapped where they can be, and refused where they are damaged."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pytest

from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions
from tests.sources.conftest import INFO, write_stream


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
