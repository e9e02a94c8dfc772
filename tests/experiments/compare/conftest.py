"""Data that the tests of comparisons share."""

import numpy as np
import pytest

from kspr.experiments.compare.comparing import compare
from tests.experiments.compare.samples import FEW


@pytest.fixture(scope="session")
def small(digits20):
    """Return 600 rows for training and 300 to test on."""
    rows, rest = np.arange(600), np.arange(600, 900)
    data = digits20.X[rows], digits20.y[rows], digits20.y_true[rows]
    return *data, (digits20.X[rest], digits20.y_true[rest])


@pytest.fixture(scope="session")
def found(small):
    X, y, y_true, test = small
    return compare(X, y, y_true, FEW, test=test)
