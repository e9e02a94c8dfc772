"""Passes over data without learning: features and scores, and how often a network is right."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from kspr.train.backbones import evaluating
from kspr.train.distributed import World
from kspr.train.inputs import Inputs
from kspr.train.media import Medium

__all__ = ["Answers", "accuracy", "answers"]

_ROWS = 1024
"""Vectors in a pass's batch; images take a quarter."""


class Answers(NamedTuple):
    """What a network says of rows."""

    features: Tensor
    scores: Tensor
    """Logits."""


def answers(
    network: nn.Module, inputs: Inputs, medium: Medium, world: World, rows: Tensor | None = None
) -> Answers:
    """Return features and logits of `rows`, all of them otherwise, on the network's device.

    The network is asked as it would be in use: nothing is augmented, dropout is off, and batch
    statistics are the remembered ones.
    """
    rows = torch.arange(len(inputs)) if rows is None else rows
    own = world.part(rows)
    size = _ROWS if len(inputs.shape) == 1 else _ROWS // 4
    with evaluating(network):
        parts = [_ask(network, inputs, medium, world, part) for part in torch.split(own, size)]
    features, scores = (torch.cat(values) for values in zip(*parts, strict=True))
    return Answers(world.whole(features, len(rows)), world.whole(scores, len(rows)))


def _ask(
    network: nn.Module, inputs: Inputs, medium: Medium, world: World, rows: Tensor
) -> tuple[Tensor, Tensor]:
    batch = medium.plain_view(inputs.take(rows).to(world.device))
    found = network(batch)
    return found.features.float(), found.logits.float()


def accuracy(scores: Tensor, label: Tensor) -> float:
    """Return the share of rows whose largest score is at their label; nan without rows."""
    if len(label) == 0:
        return float("nan")
    return float((scores.argmax(dim=1) == label.to(scores.device)).float().mean())
