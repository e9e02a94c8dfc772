"""Passes on disk: what was found is found again, to the last bit, without pickled objects."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from kspr.core.linear_fit import LinearFit
from kspr.selectors._partitions import Rows, look
from kspr.selectors._saved_passes import (
    SavedPasses,
    anchors_of,
    arrays_of_anchors,
    arrays_of_fits,
    arrays_of_look,
    fits_of,
    look_of,
)
from tests.selectors.clusters import noisy_data

X, y = noisy_data(100)


def through_disk(tmp_path, found, pack, unpack):
    saved = SavedPasses(tmp_path)
    assert saved.once("pass", lambda: found, pack, unpack) is found
    return saved.once("pass", lambda: pytest.fail("done again"), pack, unpack)


@pytest.mark.parametrize("labels", [y, np.array(["a", "b", "c", "dd"])[y].astype(object)])
def test_a_look_comes_back(tmp_path, labels):
    found = look(Rows(X, labels), 0, 0, (1, 2), True)
    again = through_disk(tmp_path, found, arrays_of_look, look_of)
    for name in ("number", "n_features", "dtype", "texts", "largest", "limit", "digest"):
        assert getattr(again, name) == getattr(found, name)
    for one, two in zip(found.censuses, again.censuses, strict=True):
        for name, value in vars(one).items():
            np.testing.assert_array_equal(getattr(two, name), value)


def test_fits_come_back(tmp_path):
    fits = tuple(LinearFit(X[i], X[None, :12], X[:2]) for i in (0, 1))
    again, least, borders = through_disk(tmp_path, (fits, y * 1.0, X[:3]), arrays_of_fits, fits_of)
    for one, two in zip(fits, again, strict=True):
        for name, value in vars(one).items():
            np.testing.assert_array_equal(getattr(two, name), value)
    np.testing.assert_array_equal(least, y)
    np.testing.assert_array_equal(borders, X[:3])


@pytest.mark.parametrize("counts", [np.eye(3), csr_array(np.eye(3))])
def test_anchors_come_back(tmp_path, counts):
    again, temperature = through_disk(tmp_path, (counts, 0.25), arrays_of_anchors, anchors_of)
    assert temperature == 0.25
    np.testing.assert_array_equal(np.asarray(again.sum(axis=0)), np.ones(3))


def test_without_a_folder_nothing_is_kept():
    calls = []
    for _ in range(2):
        SavedPasses().once("pass", lambda: calls.append(1), dict, dict)
    assert len(calls) == 2
