"""npy files: mapped, in either order, and refused where they hold no features."""

import numpy as np
import pytest

from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions


def test_npy_is_mapped_and_keeps_its_type(tmp_path, features):
    np.save(tmp_path / "x.npy", features.astype(np.float16))
    found = open_source(tmp_path / "x.npy", ReadOptions())
    assert isinstance(found.features, np.memmap)
    assert found.features.dtype == np.float16
    assert found.label is None
    assert found.reader == "npy"
    assert found.row_id.tolist() == [str(i) for i in range(30)]


def test_npy_in_column_order_is_read_right(tmp_path, features):
    np.save(tmp_path / "x.npy", np.asfortranarray(features))
    np.testing.assert_array_equal(open_source(tmp_path / "x.npy", ReadOptions()).features, features)


def test_a_renamed_npz_is_not_an_npy(tmp_path, features, refusal):
    np.savez(tmp_path / "x.npz", X=features)
    (tmp_path / "x.npz").rename(tmp_path / "x.npy")
    assert "x.npy is a zip archive" in refusal(tmp_path / "x.npy")


def test_a_truncated_npy_says_how_much_is_there(tmp_path, features, refusal):
    path = tmp_path / "x.npy"
    np.save(path, features)
    path.write_bytes(path.read_bytes()[:300])
    assert "x.npy is cut short: it has 300 of 608 bytes. Write" in refusal(path)


@pytest.mark.parametrize(
    ("array", "complaint"),
    [
        (np.zeros(5), "must have two dimensions (rows, features), got shape (5,)"),
        (np.zeros((5, 2, 2)), "got shape (5, 2, 2)"),
        (np.zeros((0, 3)), "has no rows"),
        (np.zeros((3, 0)), "has no columns"),
        (np.array([["a", "b"]]), "must hold numbers, got <U1"),
    ],
)
def test_features_are_a_table_of_numbers(tmp_path, array, complaint, refusal):
    np.save(tmp_path / "x.npy", array)
    assert complaint in refusal(tmp_path / "x.npy")
