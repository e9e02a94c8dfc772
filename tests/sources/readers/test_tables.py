"""Tables in memory: Arrow tables, and data frames of any kind."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions


@pytest.mark.parametrize(
    "make",
    [
        lambda table: table,
        lambda table: table.to_batches()[0],
        lambda table: table.to_pandas(),
        lambda table: pl.from_arrow(table),
        lambda table: pl.from_arrow(table).lazy(),
        lambda table: table.to_pandas().assign(label=lambda d: d.label.astype("category")),
    ],
)
def test_tables_in_memory_are_read_like_files(table, features, names, make):
    found = open_source(make(table), ReadOptions(id="key"))
    np.testing.assert_array_equal(found.features, features)
    np.testing.assert_array_equal(found.label, names)
    assert found.row_id[29] == "row-29"
    assert str(found.source).startswith("<")


def test_data_frames_of_lists_are_features(features):
    frame = pd.DataFrame({"emb": list(features), "y": np.arange(30) % 2})
    np.testing.assert_array_equal(open_source(frame, ReadOptions()).features, features)
    frame = pl.DataFrame({"emb": features, "y": np.arange(30) % 2})
    np.testing.assert_array_equal(open_source(frame, ReadOptions()).features, features)
