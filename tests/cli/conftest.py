"""Files and runs that the tests of the commands share."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from kspr.noise import symmetric
from tests.cli.commands import SAID, run

NAMES = np.array([f"digit-{k}" for k in range(10)])


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:900].astype(np.float32), NAMES[y[:900]], NAMES[symmetric(y[:900], 0.3, seed=1)]


@pytest.fixture(scope="module")
def table(digits, tmp_path_factory) -> Path:
    """A parquet file with 64 feature columns, a noisy label and the truth."""
    X, truth, noisy = digits
    columns = {f"emb_{i}": X[:, i] for i in range(64)}
    path = tmp_path_factory.mktemp("data") / "digits.parquet"
    pq.write_table(
        pa.table({"id": np.arange(900), "species": noisy, "truth": truth, **columns}), path
    )
    return path


@pytest.fixture(scope="module")
def made(table, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    run("select", table, *SAID, "--q", "0.05", "--out", folder)
    return folder


EMBEDDER = """
import numpy as np
def pixels(images):
    return np.stack([np.asarray(i.convert("L").resize((8, 8)), np.float32).ravel() for i in images])
"""


@pytest.fixture(scope="module")
def photos(digits, tmp_path_factory) -> Path:
    """A folder of images per given label; one image is broken."""
    root = tmp_path_factory.mktemp("photos")
    images = load_digits().images[:900]
    _X, _truth, noisy = digits
    for i in range(600):
        folder = root / "photos" / noisy[i]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray((images[i] * 15).astype(np.uint8)).save(folder / f"{i:04d}.png")
    broken = next((root / "photos").glob("*/*.png"))
    broken.write_bytes(broken.read_bytes()[:40])
    (root / "mine.py").write_text(EMBEDDER)
    return root
