"""Features from columns: lists or numbers, their precision, missing values."""

import numpy as np
import pyarrow as pa
import pytest

from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.float32()), pa.list_(pa.float32(), 4), pa.large_list(pa.float32())]
)
def test_a_list_column_is_features(parquet_file, features, kind):
    lists = pa.array(features.tolist(), kind)
    found = open_source(
        parquet_file({"emb": lists, "size": np.arange(30), "y": np.arange(30)}), ReadOptions()
    )
    np.testing.assert_array_equal(found.features, features)


@pytest.mark.parametrize("stored", ["float16", "float32", "float64", "int64", "uint8", "bool"])
def test_numbers_of_every_type_become_single_precision(parquet_file, stored):
    found = open_source(
        parquet_file({"a": np.arange(3).astype(stored), "y": [0, 1, 0]}), ReadOptions()
    )
    assert found.features.dtype == np.float32
    assert found.features[:, 0].tolist() == np.arange(3).astype(stored).tolist()


def test_nothing_in_a_cell_is_nan(parquet_file):
    table = {"a": [1.0, None], "b": pa.array([True, None]), "y": [0, 1]}
    np.testing.assert_array_equal(
        open_source(parquet_file(table), ReadOptions()).features, [[1, 1], [np.nan, np.nan]]
    )
