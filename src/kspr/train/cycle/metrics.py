"""Passes over data without learning: features and scores, and how often a network is right."""

import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from kspr.core.metrics import SelectionQuality, selection_quality
from kspr.models.network import evaluating
from kspr.train.cycle.task import Task
from kspr.train.distributed import World
from kspr.train.inputs import Inputs
from kspr.train.pipelines import Medium

__all__ = ["Answers", "Epoch", "Standing", "accuracy", "answers", "quality_of", "standing_of"]

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


class Standing(NamedTuple):
    """How one network does: a line's weights, or their average."""

    right: Tensor
    """Mask over the held-out samples: the prediction is the given label."""
    test_accuracy: float | None

    @property
    def held_out(self) -> float:
        """Share of the held-out samples whose given label is predicted."""
        return float(self.right.double().mean()) if len(self.right) else float("nan")


@dataclass(frozen=True)
class Epoch:
    """One line of metrics."""

    epoch: int
    loss: float
    reference_loss: float | None
    rate: float
    """Learning rate at the epoch's end."""
    accuracy: float | None
    """On the test set, of the weights."""
    accuracy_average: float | None
    """On the test set, of the averaged weights."""
    reference_accuracy: float | None
    reference_accuracy_average: float | None
    held_out: float | None
    """Share of held-out given labels that are predicted, by the better of weights and average."""
    reference_held_out: float | None
    kept: float
    """Share of all labels that the last selection keeps."""
    used: float
    """Share of all labels that the next epoch learns from."""
    q_reached: float | None
    """Mean level that the cut groups of the kept samples met."""
    q_spread: float | None
    """Standard deviation of that level over the cut groups."""
    quality: SelectionQuality | None
    """Against the truth, where it is known."""
    notes: tuple[str, ...]
    """What the guard said."""
    seconds: float
    select_seconds: float

    @property
    def select_share(self) -> float:
        """Share of the epoch's time that the selection took."""
        return self.select_seconds / self.seconds if self.seconds else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return the measurements flat, as a line of JSON holds them."""
        flat = asdict(self)
        quality = flat.pop("quality") or dict.fromkeys(("fsr", "recall", "f1"))
        found = {**flat, **quality, "select_share": self.select_share, "notes": list(self.notes)}
        return {name: _plain(value) for name, value in found.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return None if math.isnan(value) else float(f"{value:.6g}")
    return value


def standing_of(network: nn.Module, task: Task, medium: Medium, world: World) -> Standing:
    """Return how a network does on held-out and test samples."""
    rows = torch.nonzero(task.held_out)[:, 0]
    right = torch.zeros(0, dtype=torch.bool)
    if len(rows):
        scores = answers(network, task.inputs, medium, world, rows).scores
        right = scores.argmax(dim=1).cpu() == task.label[rows]
    if task.test is None:
        return Standing(right, None)
    scores = answers(network, task.test.inputs, medium, world).scores
    return Standing(right, accuracy(scores, task.test.label))


def quality_of(mask: Tensor | None, truly_clean: np.ndarray | None) -> SelectionQuality | None:
    """Return a selection's quality, None where there is none or the truth is not known."""
    if mask is None or truly_clean is None:
        return None
    return selection_quality(mask.cpu().numpy(), truly_clean)
