"""Data and results that the tests of reproduced trials share."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kspr.experiments.reproduce.running import reproduce
from tests.experiments.reproduce.samples import QUICK, png


@pytest.fixture(scope="session")
def once(tmp_path_factory):
    return reproduce(QUICK, "smoke", tmp_path_factory.mktemp("once"))


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A folder that holds ``cifar10/`` as features and as images."""
    home = tmp_path_factory.mktemp("data") / "cifar10"
    home.mkdir()
    rng = np.random.default_rng(0)
    stored = {}
    for split, n in (("train", 400), ("test", 40)):
        y = np.arange(n) % 10
        stored[f"X_{split}"] = (rng.standard_normal((n, 16)) + 4 * np.eye(10, 16)[y]).astype("f2")
        stored[f"y_{split}"] = y.astype("u1")
        table = {"img": [{"bytes": png(rng)} for _ in y], "label": y}
        pq.write_table(pa.table(table), home / f"{split}.parquet")
    np.savez(home / "features.npz", **stored)
    return home.parent
