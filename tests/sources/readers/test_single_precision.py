"""Single precision: what it cannot hold is refused, what it blurs is said."""

import numpy as np
import pytest

from kspr.sources.opening import open_source
from kspr.sources.readers.numbers import as_single


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_what_is_exact_already_is_not_copied(dtype):
    array = np.ones((3, 2), dtype)
    assert as_single(array, "x")[0] is array


def test_numbers_too_large_are_refused_by_name_and_row(tmp_path, refusal, parquet_file):
    values = np.ones((5, 2))
    values[3, 1] = 1e200
    np.save(tmp_path / "x.npy", values)
    assert "x.npy must lie within 3.4e38, got 1e+200 in row 3. Scale" in refusal(tmp_path / "x.npy")
    table = {"a": values[:, 0], "b": values[:, 1], "y": np.arange(5)}
    message = refusal(parquet_file(table))
    assert message.startswith("Feature column 'b' of ")
    assert "got 1e+200 in row 3." in message


def test_columns_that_become_blurred_are_said(parquet_file):
    rng = np.random.default_rng(0)
    table = {"time": 1.7e9 + rng.random(50) * 100, "a": rng.random(50), "y": np.arange(50) % 2}
    note = open_source(parquet_file(table)).notes[-1]
    assert "the values of 'time' lie too close together for single precision." in note


def test_missing_and_infinite_numbers_pass_unchanged():
    array = np.array([[np.nan, 1.0], [np.inf, 2.0], [0.0, 3.0]])
    single, notes = as_single(array, "x")
    np.testing.assert_array_equal(single, array)
    assert notes == ()
