"""Small files that many tests of the readers share."""

import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from kspr.errors import InputError
from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions


@pytest.fixture
def refusal():
    """Return the message with which a source is refused: at most two sentences, on one line."""

    def refuse(source, **said) -> str:
        with pytest.raises(InputError) as caught:
            open_source(source, ReadOptions(**said))
        message = str(caught.value)
        assert "\n" not in message
        assert message.endswith((".", "?"))
        return message

    return refuse


@pytest.fixture
def features() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((30, 4)).astype(np.float32)


@pytest.fixture
def names() -> np.ndarray:
    return np.array(["cat", "dog", "otter"])[np.arange(30) % 3]


@pytest.fixture
def table(features, names) -> pa.Table:
    columns = {f"emb_{i}": features[:, i] for i in range(4)}
    return pa.table({"key": [f"row-{i}" for i in range(30)], **columns, "label": names})


def picture(shade: int = 0, size: int = 8, **saving) -> bytes:
    """Return the bytes of a small image."""
    buffer = io.BytesIO()
    Image.new("RGB", (size, size), (shade, 0, 0)).save(buffer, saving.get("format", "PNG"))
    return buffer.getvalue()


@pytest.fixture(name="picture")
def _picture():
    return picture


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


@pytest.fixture
def folder(tmp_path, picture):
    """Four images in two classes, and files that are none."""
    root = tmp_path / "images"
    for number, name in enumerate(["cat/b.png", "cat/a.PNG", "cat/deep/er/c.jpg", "dog/a.jpeg"]):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(number * 10))
    (root / "cat" / ".hidden.png").write_bytes(b"")
    (root / "cat" / "notes.txt").write_text("x")
    (root / ".git").mkdir()
    (root / ".git" / "x.png").write_bytes(picture())
    return root


@pytest.fixture
def parquet_file(tmp_path):
    """A function that writes a table as parquet and returns its path."""

    def write(table, name="x.parquet", **how):
        pq.write_table(
            table if isinstance(table, pa.Table) else pa.table(table), tmp_path / name, **how
        )
        return tmp_path / name

    return write


@pytest.fixture
def text_file(tmp_path):
    """A function that writes text or bytes to a file and returns its path."""

    def write(content: str | bytes, name: str = "x.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write
