"""A run whose ids are read from its file when they are asked for."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kspr import KnockoffsSPR
from kspr.features.options import AS_SHIPPED
from kspr.runs.run import load_run
from kspr.runs.select import select_source
from kspr.sources.options import AS_FOUND
from tests.runs.samples import TRUTH, X

NAMES = np.array([f"digit {k}" for k in range(10)])


@pytest.fixture(scope="module", params=[False, True], ids=["no ids", "ids"])
def source(request, tmp_path_factory) -> Path:
    """Digits in a table with texts as labels, a fifth of them wrong."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(len(TRUTH)) < 0.2, rng.integers(10, size=len(TRUTH)), TRUTH)
    columns = {f"f{k}": X[:, k].astype(np.float32) for k in range(X.shape[1])}
    columns |= {"label": NAMES[y]}
    if request.param:
        columns["id"] = [f"n{row}" for row in rng.permutation(len(y))]
    path = tmp_path_factory.mktemp("digits") / "x.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=500)
    return path


def test_a_run_keeps_the_file_that_it_was_loaded_from(source, tmp_path):
    how = {"options": AS_FOUND, "settings": AS_SHIPPED, "command": ("kspr",)}
    selector = KnockoffsSPR(q=0.05, progress=False)
    select_source(source, tmp_path / "run", selector, **how)
    run = load_run(tmp_path / "run")
    ids = [f"other {row}" for row in range(len(run.rows))]
    pq.write_table(pq.read_table(source).append_column("uid", [ids]), tmp_path / "other.parquet")
    select_source(tmp_path / "other.parquet", tmp_path / "run", selector, overwrite=True, **how)
    assert run.joined.whole
    assert not set(run.row_id[np.array([5, 3])]) & set(ids)
