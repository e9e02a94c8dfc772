"""Small data that the tests of the cycle share."""

import numpy as np
import pytest
import torch
from kspr.core.noise import symmetric
from sklearn.datasets import load_digits

from kspr.train import TrainSettings
from tests.conftest import Noisy


@pytest.fixture(autouse=True)
def one_thread():
    """Two cores, shared: a thread each would be slower, and bits must not depend on it."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def small() -> Noisy:
    """300 digits, 30 % of the labels wrong."""
    X, y = load_digits(return_X_y=True)
    return Noisy(X[:300].astype(np.float32), symmetric(y[:300], 0.3, seed=1), y[:300])


@pytest.fixture
def quick() -> TrainSettings:
    """Four short epochs."""
    return TrainSettings.from_preset(
        "cpu", epochs=4, warmup_epochs=1, select_every=1, batch_size=32, selection={"q": 0.2}
    )
