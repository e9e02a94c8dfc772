"""Tables in memory: Arrow tables, and data frames of any kind."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from kspr.errors import InputError
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


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_probabilities_are_read_beside_features_with_their_names(tmp_path, suffix):
    frame = pd.DataFrame({"emb": [1.0, 2, 3], "p_b": [0.25, 0.5, 1], "p_a": [0.75, 0.5, 0]})
    path = tmp_path / f"t.{suffix}"
    getattr(frame.assign(y=["a", "b", "a"]), f"to_{suffix}")(path, index=False)
    found = open_source(path, ReadOptions(probabilities="p_*"))
    np.testing.assert_array_equal(found.probabilities, frame[["p_b", "p_a"]])
    assert found.probability_columns == ("p_b", "p_a")
    np.testing.assert_array_equal(found.features[:, 0], frame["emb"])


def test_a_list_of_probabilities_has_no_names():
    frame = pl.DataFrame({"p": [[0.25, 0.75], [1.0, 0.0]], "y": ["a", "b"]})
    found = open_source(frame, ReadOptions(probabilities="p"))
    np.testing.assert_array_equal(found.probabilities, [[0.25, 0.75], [1.0, 0.0]])
    assert found.probability_columns == ()
    assert found.features is None


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_column_of_groups_is_no_feature(tmp_path, suffix):
    frame = pd.DataFrame({"emb": [1.0, 2, 3], "patient": [7, 8, 7], "y": ["a", "b", "a"]})
    path = tmp_path / f"t.{suffix}"
    getattr(frame, f"to_{suffix}")(path, index=False)
    found = open_source(path, ReadOptions(groups="patient"))
    assert found.groups.tolist() == ["7", "8", "7"]
    assert found.features.tolist() == [[1], [2], [3]]
    assert found.columns["groups"] == ("patient",)
    assert open_source(path, ReadOptions()).groups is None


def test_rows_without_a_group_are_refused():
    frame = pd.DataFrame({"emb": [1.0, 2, 3], "patient": ["p", "", "q"], "y": ["a", "b", "a"]})
    with pytest.raises(
        InputError, match=r"Column 'patient' of <DataFrame> is empty in row 1\. Give"
    ):
        open_source(frame, ReadOptions(groups="patient"))
    lists = pl.DataFrame({"emb": [1.0, 2], "patient": [["p"], ["q"]], "y": ["a", "b"]})
    with pytest.raises(InputError, match="not one group per row"):
        open_source(lists, ReadOptions(groups="patient"))
