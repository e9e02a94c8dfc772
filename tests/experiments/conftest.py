"""Data that the tests of the peers share."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from kspr.experiments.compare.peers import Shared
from kspr.noise import symmetric
from tests.conftest import Noisy


@pytest.fixture(scope="session")
def digits20() -> Noisy:
    """The digits with 20 % symmetric noise."""
    X, y = load_digits(return_X_y=True)
    return Noisy(X.astype(np.float32), symmetric(y, 0.2, seed=1), y)


@pytest.fixture(scope="session")
def digits_question(digits20) -> Shared:
    return Shared(digits20.X, digits20.y, q=0.1, known_rate=0.2)


@pytest.fixture
def tiny() -> Shared:
    """Sixty rows of three overlapping classes, a few of them wrong."""
    rng = np.random.default_rng(5)
    y = np.arange(60) % 3
    X = rng.standard_normal((60, 4)) + 2 * np.eye(3, 4)[y]
    y[:6] = (y[:6] + 1) % 3
    return Shared(X.astype(np.float32), y, known_rate=0.1)
