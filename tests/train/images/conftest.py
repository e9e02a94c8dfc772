"""Random images, and the package that ours are compared with."""

import pytest
import torch


def rng(seed=0):
    """Return a generator of random numbers."""
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def images():
    return torch.rand(60, 3, 12, 10, generator=rng(5))


@pytest.fixture(scope="module")
def kornia():
    return pytest.importorskip("kornia", reason="kornia is not installed")
