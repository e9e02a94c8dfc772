"""Passes on disk: what was found is found again, to the last bit, without pickled objects."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from kspr.core.linear_fit import LinearFit
from kspr.selectors._cluster_states import (
    pack_anchors,
    pack_fits,
    pack_look,
    unpack_anchors,
    unpack_fits,
    unpack_look,
)
from kspr.selectors._partitions import Rows, look
from kspr.selectors.checkpoint import Checkpoint, once, resumable
from tests.selectors.clusters import noisy_data

X, y = noisy_data(100)


def through_disk(tmp_path, found, pack, unpack):
    with resumable(Checkpoint(tmp_path, "data", patience=0)):
        assert once("pass", lambda: found, pack, unpack) is found
        return once("pass", lambda: pytest.fail("done again"), pack, unpack)


@pytest.mark.parametrize("labels", [y, np.array(["a", "b", "c", "dd"])[y].astype(object)])
def test_a_look_comes_back(tmp_path, labels):
    found, _ = look(Rows(X, labels), 0, 0, (1, 2), True)
    again = through_disk(tmp_path, found, pack_look, unpack_look)
    for name in ("number", "n_features", "dtype", "texts", "largest", "limit", "digest"):
        assert getattr(again, name) == getattr(found, name)
    for one, two in zip(found.censuses, again.censuses, strict=True):
        for name, value in vars(one).items():
            np.testing.assert_array_equal(getattr(two, name), value)


def test_fits_come_back(tmp_path):
    fits = tuple(LinearFit(X[i], X[None, :12], X[:2]) for i in (0, 1))
    again, least, borders = through_disk(tmp_path, (fits, y * 1.0, X[:3]), pack_fits, unpack_fits)
    for one, two in zip(fits, again, strict=True):
        for name, value in vars(one).items():
            np.testing.assert_array_equal(getattr(two, name), value)
    np.testing.assert_array_equal(least, y)
    np.testing.assert_array_equal(borders, X[:3])


@pytest.mark.parametrize("counts", [np.eye(3), csr_array(np.eye(3))])
def test_anchors_come_back(tmp_path, counts):
    again, temperature = through_disk(tmp_path, (counts, 0.25), pack_anchors, unpack_anchors)
    assert temperature == 0.25
    np.testing.assert_array_equal(np.asarray(again.sum(axis=0)), np.ones(3))
