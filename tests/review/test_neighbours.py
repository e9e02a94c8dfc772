"""Rows to compare with are kept ones of the class, and the nearest."""

import numpy as np

from kspr.review import neighbours
from kspr.review.neighbours import Neighbours


def test_the_nearest_rows_of_a_class_are_found(blobs):
    code, kept = blobs.y_true, blobs.right
    found = Neighbours(blobs.X.astype(np.float16), code, kept)
    centred = blobs.X - blobs.X[kept].mean(axis=0)
    unit = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    for position in (0, 7, 200):
        similarity = found.similarity(position)
        for k in range(3):
            near = found.nearest(similarity, k, 3)
            assert len(near) == 3
            assert position not in near
            assert (code[near] == k).all()
            assert kept[near].all()
            own = unit[position] @ unit[near].T
            rest = np.flatnonzero((code == k) & kept & (np.arange(len(code)) != position))
            assert own.min() >= np.sort(unit[position] @ unit[rest].T)[-3] - 0.01
        assert found.votes(similarity, 3).argmax() == blobs.y_true[position]
        assert found.votes(similarity, 3).sum() == 50


def test_a_rare_class_is_in_the_reference(monkeypatch):
    monkeypatch.setattr(neighbours, "_REFERENCE", 100)
    code = np.where(np.arange(5000) % 1000 == 0, 1, 0)
    X = np.random.default_rng(0).standard_normal((5000, 3))
    found = Neighbours(X, code, np.ones(5000, dtype=bool))
    assert len(found.nearest(found.similarity(3), 1, 9)) == 5
    assert len(found.similarity(3)) == 55


def test_a_class_of_which_nothing_is_kept_has_no_neighbours():
    code = np.array([0, 0, 1, 1])
    found = Neighbours(np.eye(4), code, code == 0)
    assert found.nearest(found.similarity(2), 1, 3) == []
    nothing = Neighbours(np.eye(4), code, code > 5)
    assert nothing.votes(nothing.similarity(0), 2).tolist() == [0, 0]
