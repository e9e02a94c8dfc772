"""What every network of this package gives: features and logits of one forward pass."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

__all__ = ["BodyNetwork", "Network", "Outputs", "evaluating", "seeded"]


class Outputs(NamedTuple):
    """One row per sample: ``features`` is (n, d), ``logits`` is (n, classes)."""

    features: Tensor
    logits: Tensor


class Network(nn.Module, ABC):
    """A classifier whose ``forward`` returns `Outputs`."""

    def __init__(self, n_features: int, n_classes: int) -> None:
        super().__init__()
        self.n_features = n_features
        self.n_classes = n_classes

    @abstractmethod
    def forward(self, x: Tensor) -> Outputs:
        """Return the features and logits of a batch."""


class BodyNetwork(Network):
    """A body that gives (n, `n_features`) rows, and one linear layer on them."""

    def __init__(self, body: nn.Module, n_features: int, n_classes: int) -> None:
        super().__init__(n_features, n_classes)
        self.body = body
        self.head = nn.Linear(n_features, n_classes)

    def forward(self, x: Tensor) -> Outputs:
        """Return the features and logits of a batch."""
        features = self.body(x)
        return Outputs(features, self.head(features))


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Put `module` in evaluation mode for a while, without gradients.

    Each part gets its own mode back: a user may have frozen the statistics of some.
    """
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, mode in modes:
            part.training = mode


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw from the CPU's default generator as if it were new, and leave it as it was.

    Layers take their initial weights from nowhere else.
    """
    with torch.random.fork_rng(devices=[]):
        # Not torch.manual_seed: it would reach the generators of GPUs too, for good.
        torch.default_generator.manual_seed(seed)
        yield
