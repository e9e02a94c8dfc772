"""Small files that many tests of the readers share."""

import io

import numpy as np
import pyarrow as pa
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
