"""Files and runs that the tests of the commands share."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kspr.core.noise import symmetric
from sklearn.datasets import load_digits

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
