"""One small selection, and runs that say it was made from any source."""

import csv
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from kspr import KnockoffsSPR, Selection
from kspr.features.loading import Loaded
from kspr.noise import symmetric
from kspr.runs.rows import rows_of
from kspr.runs.run import Run, origin_of, save_run
from kspr.sources.opening import open_source
from kspr.sources.options import AS_FOUND, ReadOptions
from tests.runs.tables import N, typed_table


@pytest.fixture(scope="session")
def features() -> np.ndarray:
    """Three classes of 20 rows, far apart."""
    centres = np.eye(3, 4) * 6
    noise = np.random.default_rng(0).standard_normal((N, 4))
    return (centres[np.arange(N) % 3] + noise).astype(np.float32)


@pytest.fixture(scope="session")
def true_names() -> np.ndarray:
    return np.array(["cat", "dog", "otter"])[np.arange(N) % 3]


@pytest.fixture(scope="session")
def names(true_names) -> np.ndarray:
    return symmetric(true_names, 0.2, seed=2)


@pytest.fixture(scope="session")
def selection(features, names) -> Selection:
    found = KnockoffsSPR(q=0.1).fit(features, names).selection_
    assert 0 < found.clean_mask.sum() < N
    return found


@pytest.fixture
def run_of(tmp_path, selection):
    """Return a run of `selection` whose rows are those of a source."""

    def make(
        source: Path,
        options: ReadOptions = AS_FOUND,
        made: Selection = selection,
        row: np.ndarray | None = None,
    ) -> Run:
        row = np.arange(len(made)) if row is None else row
        loaded = Loaded(open_source(source, options), None, row)
        origin = origin_of(loaded, options, ("kspr", "select", str(source)))
        return save_run(tmp_path / "run", made, rows_of(loaded), origin, overwrite=True)

    return make


@pytest.fixture
def typed(names) -> pa.Table:
    """A table with columns of many types, and metadata of Hugging Face and of pandas."""
    return typed_table(names)


@pytest.fixture
def texts(tmp_path, run_of, names):
    with (tmp_path / "t.csv").open("w", newline="") as file:
        lines = [[f"text,\nof {i} " * 90, name] for i, name in enumerate(names)]
        csv.writer(file).writerows([["text", "label"], *lines])
    return run_of(tmp_path / "t.csv")
