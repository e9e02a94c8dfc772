"""Trials on single pieces: the solution path, and the condition of Theorem 1."""

import numpy as np
import pytest

from kspr.experiments.reproduce.recipes import Variant
from kspr.experiments.reproduce.trials import compute
from tests.experiments.reproduce.samples import spec

DIGITS = {"source": "digits", "rows": 600}


@pytest.fixture(scope="module")
def solved():
    return compute(spec("path", DIGITS, Variant("spr"), {"per_class": 8, "steps": 12}))


def test_the_path_has_a_norm_for_every_row_at_every_level(solved):
    norms = np.array(solved["norms"])
    assert norms.shape == (80, 12) == (len(solved["wrong"]), len(solved["lams"]))
    # Shifts grow as the penalty falls.
    assert np.all(norms[:, -1] >= norms[:, 0])
    assert 0 < sum(solved["wrong"]) < 80


def test_wrong_labels_leave_zero_at_larger_penalties(solved):
    wrong, entered = np.array(solved["wrong"]), np.array(solved["norms"]) > 0
    assert entered[wrong].sum(axis=1).mean() > entered[~wrong].sum(axis=1).mean() + 1


def test_every_piece_has_a_median_irrepresentable_value():
    variant = Variant("spr", {"samples_per_class": 20})
    found = compute(spec("theory", DIGITS, variant))
    assert len(found["medians"]) >= 2
    assert found["median"] == pytest.approx(np.median(found["medians"]), rel=1e-5)
    assert 0 <= found["fsr"] <= 1
