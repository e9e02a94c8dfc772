"""Data that many tests share."""

from dataclasses import dataclass

import hypothesis
import numpy as np
import pytest
from sklearn.datasets import load_digits, make_blobs

from kspr.noise import symmetric

# How long an example takes says more of the machine than of the code.
hypothesis.settings.register_profile("kspr", deadline=None)
hypothesis.settings.load_profile("kspr")


@dataclass(frozen=True)
class Noisy:
    X: np.ndarray
    y: np.ndarray
    y_true: np.ndarray

    @property
    def right(self) -> np.ndarray:
        return self.y == self.y_true


@pytest.fixture(scope="session")
def digits40() -> Noisy:
    """The digits with 40 % symmetric noise."""
    X, y = load_digits(return_X_y=True)
    return Noisy(X, symmetric(y, 0.4, seed=1), y)


@pytest.fixture(scope="session")
def blobs() -> Noisy:
    """Three well separated classes of 120, a fifth of the labels wrong."""
    X, y = make_blobs(360, n_features=6, centers=3, cluster_std=1.5, random_state=3)
    return Noisy(X, symmetric(y, 0.2, seed=1), y)
