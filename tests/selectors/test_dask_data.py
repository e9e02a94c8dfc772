"""Dask arrays and data frames as partitions: cut at the same rows, and counted where unknown."""

import numpy as np
import pytest

from kspr.errors import InputError
from kspr.selectors._dask_data import partitions_of
from kspr.selectors.engines.cluster import Cluster
from tests.selectors.clusters import HereCluster, noisy_data

da = pytest.importorskip("dask.array")
X, y = noisy_data(100)


class ComputingCluster(HereCluster):
    """Computes Dask's own objects too."""

    lazily = Cluster.lazily

    def each(self, function, blocks, *shared, n_results=None):
        import dask

        return super().each(function, dask.compute(*blocks, scheduler="sync"), *shared)


def rows_of(partitions) -> tuple[np.ndarray, np.ndarray, list[int]]:
    import dask

    found = dask.compute(*partitions.rows, scheduler="sync")
    assert tuple(len(part.y) for part in found) == partitions.lengths
    return (
        np.concatenate([part.X for part in found]),
        np.concatenate([part.y for part in found]),
        list(partitions.lengths),
    )


@pytest.mark.parametrize("labels", [y, da.from_array(y, chunks=33), da.from_array(y, chunks=40)])
def test_arrays_are_cut_where_x_is(labels):
    # Columns in several chunks: a row is worked at as a whole.
    array = da.from_array(X, chunks=((40, 0, 60), (5, 7)))
    found, codes, lengths = rows_of(partitions_of(ComputingCluster(), array, labels))
    np.testing.assert_array_equal(found, X)
    np.testing.assert_array_equal(codes, y)
    assert lengths == [40, 0, 60]


def test_lengths_that_dask_does_not_know_are_counted():
    array = da.from_array(X, chunks=(50, -1))
    kept = array[da.from_array(y < 3, chunks=50)]
    labels = da.from_array(y, chunks=50)[da.from_array(y < 3, chunks=50)]
    found, codes, lengths = rows_of(partitions_of(ComputingCluster(), kept, labels))
    np.testing.assert_array_equal(found, X[y < 3])
    np.testing.assert_array_equal(codes, y[y < 3])
    assert lengths == [int((y[:50] < 3).sum()), int((y[50:] < 3).sum())]


def test_data_frames_are_partitions_as_they_are():
    dd = pytest.importorskip("dask.dataframe")
    import pandas as pd

    frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(12)]).assign(label=y)
    table = dd.from_pandas(frame, npartitions=3)
    features = table[[f"f{i}" for i in range(12)]]
    found, codes, lengths = rows_of(partitions_of(ComputingCluster(), features, table["label"]))
    np.testing.assert_array_equal(found, X)
    np.testing.assert_array_equal(codes, y)
    assert len(lengths) == 3


@pytest.mark.parametrize(
    ("features", "labels", "words"),
    [
        (X, y, "takes X as a Dask array or a Dask data frame, got ndarray"),
        (da.ones(5), y, "must have two dimensions"),
        (da.from_array(X), y[:9], "X has 100 rows but y has 9 labels"),
        (da.from_array(X), da.from_array(y[:9]), "X has 100 rows but y has 9 labels"),
        (da.from_array(X), None, "requires y to be passed"),
    ],
)
def test_what_is_no_data_is_refused_in_a_sentence(features, labels, words):
    with pytest.raises(InputError, match=words):
        partitions_of(ComputingCluster(), features, labels)
