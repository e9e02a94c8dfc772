"""Data whose true labels are known."""

import numpy as np
import pytest

from kspr.errors import InputError
from kspr.experiments.compare.known_truth import KnownTruth

TRUTH = np.arange(60) % 3
Y = np.where(np.arange(60) < 6, (TRUTH + 1) % 3, TRUTH)
P = np.eye(3)[TRUTH] * 0.7 + 0.1


def test_columns_of_probabilities_follow_the_classes():
    found = KnownTruth(None, Y, TRUTH, None, 128, P[:, ::-1], [2, 1, 0])
    assert np.allclose(found.probabilities, P)
    assert found.wrong == pytest.approx(0.1)


def test_other_probabilities_have_another_fingerprint():
    X = np.random.default_rng(0).standard_normal((60, 4))
    prints = {KnownTruth(X, Y, TRUTH, None, 128, p).fingerprint for p in (None, P, P[::-1])}
    assert len(prints) == 3


def test_folds_need_classes_of_five_unless_probabilities_are_given():
    y = Y.copy()
    y[y == 0] = 1
    y[:3] = 0
    with pytest.raises(InputError, match="too small for a comparison"):
        KnownTruth(np.eye(60), y, y, None, 128)
    assert KnownTruth(None, y, y, None, 128, P).wrong == 0
