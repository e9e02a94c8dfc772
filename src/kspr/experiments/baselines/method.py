"""`Method`: the rule of a training method; `Run` and `Batch`: what the rule is given.

A rule is a frozen dataclass of its constants. Everything that changes while it trains lies in
`Run.memory`, which a checkpoint holds: so every method can be resumed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from kspr.errors import InputError
from kspr.models.network import BodyNetwork, Network, Outputs
from kspr.train.inputs import InputPipeline
from kspr.train.learner import Learner
from kspr.train.settings import TrainSettings
from kspr.train.task import Task, network_outputs
from kspr.train.world import World

__all__ = ["KEPT", "Batch", "Method", "Run", "classifier_of", "cross_entropies"]

T = TypeVar("T")
KEPT = "kept"
"""Entry of `Run.memory`: a mask of the rows that batches are drawn from. Without it: all rows."""


class Batch(NamedTuple):
    """The rows of one step."""

    rows: Tensor
    """Row numbers, on the CPU."""
    label: Tensor
    """Their given labels."""
    taken: Tensor
    """The rows themselves, before augmentation."""
    view: Tensor
    """Input of the network: augmented and scaled."""
    draws: torch.Generator
    """Random numbers of this epoch's batches."""


@dataclass
class Run:
    """A training run, as its method sees it."""

    task: Task
    pipeline: InputPipeline
    settings: TrainSettings
    world: World
    learners: list[Learner]
    noise_rate: float | None = None
    """Share of wrong labels, for methods that must be told it."""
    memory: dict[str, Any] = field(default_factory=dict)
    """What the method remembers from step to step: tensors by name."""
    epoch: int = 0
    """Number of epochs that are done, over all stages."""

    @property
    def stage(self) -> int:
        """Number of the stage, from 0."""
        return self.epoch // self.settings.epochs

    @property
    def epoch_of_stage(self) -> int:
        """Number of epochs of this stage that are done."""
        return self.epoch % self.settings.epochs

    @property
    def progress(self) -> float:
        """Share of this stage that is done: the constants of the papers are for long runs."""
        return self.epoch_of_stage / self.settings.epochs

    @property
    def stage_is_done(self) -> bool:
        """Whether the epoch that was finished last also ended a stage."""
        return self.epoch > 0 and self.epoch_of_stage == 0

    @property
    def one_hot(self) -> Tensor:
        """The given labels as rows of zeros with a one."""
        label = self.task.label
        return nn.functional.one_hot(label, self.task.n_classes).float().to(self.world.device)

    def few_or_many(self, few: T, many: T) -> T:
        """Return `few` for up to 50 classes: authors tune on CIFAR-10 and on CIFAR-100."""
        return few if self.task.n_classes <= 50 else many

    def outputs(self, k: int = 0, rows: Tensor | None = None) -> Outputs:
        """Return features and logits of all rows by learner `k`, without augmentation."""
        network = self.learners[k].network
        return network_outputs(network, self.task.inputs, self.pipeline, self.world, rows)

    def probabilities(self, k: int = 0) -> Tensor:
        """Return the probabilities of all classes, for all rows, by learner `k`."""
        return self.outputs(k).logits.softmax(dim=1)

    def logits(self, batch: Batch) -> list[Tensor]:
        """Return the logits of a batch by every learner, with gradients."""
        return [learner.logits(batch.view) for learner in self.learners]

    def batch_losses(self, batch: Batch) -> list[Tensor]:
        """Return the cross-entropy of every row of a batch by every learner, with gradients."""
        return cross_entropies(self.logits(batch), batch.label)

    def training_outputs(self, batch: Batch) -> Outputs:
        """Return features and logits of a batch by the first learner, with gradients."""
        with self.learners[0].precision():
            outputs = self.learners[0].network(batch.view)
        return Outputs(outputs.features.float(), outputs.logits.float())

    def row_losses(self, k: int = 0) -> Tensor:
        """Return the cross-entropy of every row's given label by learner `k`."""
        return cross_entropies([self.outputs(k).logits], self.task.label.to(self.world.device))[0]


def cross_entropies(logits: Sequence[Tensor], label: Tensor) -> list[Tensor]:
    """Return the cross-entropy of every row by every network."""
    return [nn.functional.cross_entropy(each, label, reduction="none") for each in logits]


class Method:
    """The rule of a training method; by itself it is plain training on all given labels."""

    n_learners: int = 1
    """Networks that are trained side by side on the same batches; the first is the result."""
    n_stages: int = 1
    """Times that the epochs are run; each stage begins with networks that have learned nothing."""
    needs_noise_rate: bool = False
    """Whether it must be told the share of wrong labels."""

    def begin(self, run: Run) -> None:
        """Fill the memory before the first epoch."""

    def losses(self, run: Run, batch: Batch) -> Sequence[Tensor]:
        """Return the loss of each learner on a batch."""
        return [nn.functional.cross_entropy(logits, batch.label) for logits in run.logits(batch)]

    def after_epoch(self, run: Run) -> None:
        """Change labels or rows between two epochs."""

    def finish(self, run: Run, network: Network) -> None:
        """Change the network that the run ends with, in place."""


def classifier_of(network: nn.Module) -> nn.Linear:
    """Return the linear layer that turns a network's features into logits."""
    if not isinstance(network, BodyNetwork):
        raise InputError(
            "This method needs a network of kspr: a body and a linear classifier on its features. "
            "Leave feature_layer out, or choose a network by name."
        )
    return network.head
