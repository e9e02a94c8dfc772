"""What a network's features know about labels, without training anything on them."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from kspr.core.labels import encode_labels
from kspr.errors import InputError
from kspr.models.network import Network, evaluating
from kspr.train.images.augment import normalise

__all__ = ["Images", "Labels", "Readout", "nearest_labels"]

Labels = Sequence[int] | np.ndarray | Tensor

_BANK, _QUERIES = 5000, 1000
_CHUNK = 256
_SOFTNESS = 0.1
"""Neighbours count by exp(cosine / this), as in SimSiam's own monitor."""


class Images(Protocol):
    """Images by row."""

    def __len__(self) -> int: ...

    def take(self, index: Tensor) -> Tensor:
        """Return the images `index`, as bytes or as floats from 0 to 1."""
        ...


class Readout:
    """Look how often near neighbours share a label, always on the same few thousand images."""

    def __init__(
        self,
        inputs: Images,
        labels: Labels,
        generator: torch.Generator,
        mean: tuple[float, ...],
        std: tuple[float, ...],
    ) -> None:
        if len(labels) != len(inputs):
            raise InputError(f"inputs hold {len(inputs)} images but labels {len(labels)}.")
        self._inputs, self._mean, self._std = inputs, mean, std
        rows = torch.randperm(len(inputs), generator=generator)[: _BANK + _QUERIES]
        self._n_queries = max(1, len(rows) // 6)
        self._rows = rows
        self._labels = torch.as_tensor(encode_labels(np.asarray(labels)[rows]).codes)

    def __call__(self, network: Network) -> float:
        """Return the share of queries whose neighbours' label is their own."""
        device = next(network.parameters()).device
        with evaluating(network):
            parts = [
                network(self._view(rows).to(device)).features.float()
                for rows in torch.split(self._rows, _CHUNK)
            ]
        features, labels, n = torch.cat(parts), self._labels.to(device), self._n_queries
        found = nearest_labels(features[n:], labels[n:], features[:n])
        return float((found == labels[:n]).float().mean())

    def _view(self, rows: Tensor) -> Tensor:
        return normalise(self._inputs.take(rows), self._mean, self._std)


def nearest_labels(bank: Tensor, labels: Tensor, queries: Tensor) -> Tensor:
    """Return, for each row of `queries`, the label that its nearest rows of `bank` agree on.

    As many neighbours as the root of the bank's size: enough to outvote some wrong labels, few
    enough to be near.
    """
    n_neighbours = max(1, int(len(bank) ** 0.5))
    cosine = functional.normalize(queries, dim=1) @ functional.normalize(bank, dim=1).T
    nearest = cosine.topk(n_neighbours, dim=1)
    votes = torch.zeros(len(queries), int(labels.max()) + 1, device=bank.device)
    votes.scatter_add_(1, labels[nearest.indices], (nearest.values / _SOFTNESS).exp())
    return votes.argmax(1)
