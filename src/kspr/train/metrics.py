"""Measurements: outputs of a network for all rows, its accuracy, and the metrics of an epoch."""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from kspr.core.metrics import SelectionQuality, selection_quality
from kspr.errors import InputError
from kspr.models.network import Outputs, evaluating
from kspr.train.distributed import World
from kspr.train.inputs import Inputs
from kspr.train.pipelines import InputPipeline
from kspr.train.settings import TrainSettings
from kspr.train.task import Task

__all__ = [
    "Epoch",
    "Performance",
    "accuracy",
    "better",
    "check_converged",
    "check_finite",
    "network_outputs",
    "performance_of",
    "quality_of",
]

_ROWS = 1024
"""Rows per batch for vectors; a quarter of it for images."""


def network_outputs(
    network: nn.Module,
    inputs: Inputs,
    pipeline: InputPipeline,
    world: World,
    rows: Tensor | None = None,
) -> Outputs:
    """Return features and logits of `rows` (None: all), on the network's device.

    The network computes in evaluation mode, and inputs are not augmented.
    """
    rows = torch.arange(len(inputs)) if rows is None else rows
    # Each rank computes its share, and all ranks get all rows back below.
    own = world.shard(rows)
    size = _ROWS if len(inputs.shape) == 1 else _ROWS // 4
    parts = []
    with evaluating(network):
        for part in torch.split(own, size):
            # Moved as bytes where the inputs are images: a quarter of the transfer.
            outputs = network(pipeline.plain_view(inputs.take(part).to(world.device)))
            parts.append((outputs.features.float(), outputs.logits.float()))
    features, logits = (torch.cat(values) for values in zip(*parts, strict=True))
    n = len(rows)
    return Outputs(world.all_gather(features, n), world.all_gather(logits, n))


def check_finite(values: Iterable[Tensor], way_out: str) -> None:
    """Raise `InputError` if the weights or outputs of a network are not all finite numbers."""
    if not all(bool(torch.isfinite(v).all()) for v in values if v.is_floating_point()):
        raise InputError(f"The network diverged: its numbers became NaN or infinite. {way_out}")


def check_converged(values: Iterable[Tensor], settings: TrainSettings) -> None:
    """Raise `InputError` if `values` of a network in training are not all finite numbers."""
    rate = settings.learning_rate
    check_finite(
        values,
        f"Train again with a smaller learning_rate ({rate / 10:g} instead of {rate:g}), or "
        "with precision = 'float32' if it was another.",
    )


def accuracy(scores: Tensor, label: Tensor) -> float:
    """Return the share of rows whose largest score is that of their label; nan without rows."""
    if len(label) == 0:
        return float("nan")
    return float((scores.argmax(dim=1) == label.to(scores.device)).float().mean())


class Performance(NamedTuple):
    """How well one network predicts: a learner's weights, or their average."""

    right: Tensor
    """Mask over the held-out samples: true where the given label is predicted."""
    worth: Tensor
    """What each prediction is worth by `credit_table`: networks are compared by its mean."""
    test_accuracy: float | None
    """Accuracy on the test set; None without one."""

    @property
    def mean_worth(self) -> float:
        """Estimate of the accuracy on the true labels of the held-out samples; nan without any."""
        return float(self.worth.double().mean()) if len(self.worth) else float("nan")

    @property
    def held_out(self) -> float:
        """Share of the held-out samples whose given label is predicted."""
        return float(self.right.double().mean()) if len(self.right) else float("nan")


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """The metrics of one epoch; None where something is not measured."""

    epoch: int
    """Number of the epoch, from 1."""
    loss: float
    """Mean training loss of the cycle."""
    reference_loss: float | None = None
    """Mean training loss of the reference."""
    rate: float
    """Learning rate at the end of the epoch."""
    accuracy: float | None = None
    """Accuracy of the weights on the test set."""
    accuracy_average: float | None = None
    """Accuracy of the averaged weights on the test set."""
    reference_accuracy: float | None = None
    """Accuracy of the reference's weights on the test set."""
    reference_accuracy_average: float | None = None
    """Accuracy of the reference's averaged weights on the test set."""
    held_out: float | None = None
    """Share of held-out given labels that the better of weights and average predicts."""
    reference_held_out: float | None = None
    """The same for the reference."""
    kept: float
    """Share of all labels that the last selection keeps."""
    used: float
    """Share of all labels that the next epoch is trained on."""
    q_reached: float | None = None
    """Mean level that the cut groups of the kept samples reached."""
    q_spread: float | None = None
    """Standard deviation of that level over the cut groups."""
    quality: SelectionQuality | None = None
    """FSR, recall and F1 of the selection, where the truth is known."""
    notes: tuple[str, ...] = ()
    """Messages of the guard."""
    seconds: float
    """Duration of the epoch, selection included."""
    select_seconds: float = 0.0
    """Duration of the selection."""

    @property
    def select_share(self) -> float:
        """Share of the epoch's duration that the selection took."""
        return self.select_seconds / self.seconds if self.seconds else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return the metrics as one flat dictionary that JSON can hold."""
        flat = asdict(self)
        # The same keys in every line, with or without truth, so that a table can be made of them.
        quality = flat.pop("quality") or dict.fromkeys(("fsr", "recall", "f1"))
        line = {**flat, **quality, "select_share": self.select_share, "notes": list(self.notes)}
        return {name: _plain(value) for name, value in line.items()}


def _plain(value: Any) -> Any:
    # JSON has no nan, and six digits are more than any of these numbers means.
    if isinstance(value, float):
        return None if math.isnan(value) else float(f"{value:.6g}")
    return value


def performance_of(
    network: nn.Module,
    task: Task,
    pipeline: InputPipeline,
    world: World,
    credit: Tensor | None = None,
) -> Performance:
    """Return the performance of a network on held-out and test samples.

    `credit` is what `credit_table` returns; None counts given labels.
    """
    rows = torch.nonzero(task.held_out)[:, 0]
    given, predicted = task.label[rows], task.label[:0]
    if len(rows):
        scores = network_outputs(network, task.inputs, pipeline, world, rows).logits
        predicted = scores.argmax(dim=1).cpu()
    right = predicted == given
    worth = right.float() if credit is None else credit[given, predicted]
    if task.test is None:
        return Performance(right, worth, None)
    scores = network_outputs(network, task.test.inputs, pipeline, world).logits
    return Performance(right, worth, accuracy(scores, task.test.label))


def better(performances: dict[str, Performance], learner: str) -> Performance:
    """Return the performance of the better of a learner's two networks."""
    weights, average = performances[f"{learner} weights"], performances[f"{learner} average"]
    # Without held-out samples both means are nan, and the comparison takes the average.
    return weights if weights.mean_worth > average.mean_worth else average


def quality_of(mask: Tensor | None, truly_clean: np.ndarray | None) -> SelectionQuality | None:
    """Return FSR, recall and F1 of a selection; None without one, or if the truth is unknown."""
    if mask is None or truly_clean is None:
        return None
    return selection_quality(mask.cpu().numpy(), truly_clean)
