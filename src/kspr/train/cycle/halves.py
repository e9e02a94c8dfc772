"""Two networks, each trained on one half of the data, each predicting the half it has not seen."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kspr.errors import InputError
from kspr.models.network import Network
from kspr.train.cycle.learner import Learner
from kspr.train.cycle.metrics import check_finite, network_outputs
from kspr.train.cycle.soft_epoch import train_soft_epoch
from kspr.train.cycle.task import Task, steps_per_epoch
from kspr.train.distributed import World
from kspr.train.pipelines import InputPipeline
from kspr.train.randomness import generator_for
from kspr.train.run_folder import newest_checkpoint, write_checkpoint
from kspr.train.settings import TrainSettings

__all__ = ["Halves", "first_copies", "second_half"]

_PAIRS = {"referee": (2, 3), "teacher": (4, 5)}
"""Numbers of the learners, which make their random numbers differ; 0 and 1 are the cycle's own."""


def first_copies(n: int, copies: np.ndarray | None) -> np.ndarray:
    """Return for each of `n` rows the number of its first copy: its own, where there is none.

    `copies` numbers sets of copies as `Selection.copies` does: -1 for a row without any.
    """
    if copies is None:
        return np.arange(n)
    # The first row of each set stands for all of them.
    _, leader, member = np.unique(copies, return_index=True, return_inverse=True)
    return np.where(copies < 0, np.arange(n), leader[member])


def second_half(label: Tensor, copies: np.ndarray | None, seed: int) -> Tensor:
    """Return a random mask with half of the rows of each class; copies are on the same side.

    `copies` is as in `first_copies`.
    """
    first = torch.from_numpy(first_copies(len(label), copies))
    leaders = torch.unique(first)
    # A place of its own: the guard's held-out samples are drawn from the start of this stream.
    shuffled = leaders[torch.randperm(len(leaders), generator=generator_for(seed, "split", 1))]
    mask = torch.zeros(len(label), dtype=torch.bool)
    for code in torch.unique(label).tolist():
        own = shuffled[label[shuffled] == code]
        mask[own[: len(own) // 2]] = True
    return mask[first]


class Halves:
    """The two halves of a task, and what it takes to train a network on each.

    Parameters
    ----------
    task
        Rows and labels. Held-out samples are predicted, but trained on by none.
    second
        Mask of the rows of the second half.
    pipeline
        How rows become batches.
    network
        Initial weights; it is copied, and not changed.
    settings
        How to train.
    world
        The processes that train together.
    folder
        Where checkpoints are written, and continued from; None writes none.
    signature
        What must be equal for a checkpoint to be continued from.
    """

    def __init__(
        self,
        task: Task,
        second: Tensor,
        pipeline: InputPipeline,
        network: Network,
        settings: TrainSettings,
        world: World,
        folder: Path | None,
        signature: dict[str, Any],
    ) -> None:
        self._task, self._sides, self._pipeline = task, (~second, second), pipeline
        self._network, self._settings, self._world = network, settings, world
        self._folder, self._signature = folder, signature
        self.rows = [torch.nonzero(side & ~task.held_out)[:, 0] for side in self._sides]
        """Row numbers that each network is trained on."""
        if min(map(len, self.rows)) < 2 * world.size:
            raise InputError(
                f"There are too few samples to train two networks on halves, which need "
                f"{2 * world.size} each. Pass select_on='inputs'."
            )

    def predict_across(self, targets: Tensor, name: str) -> Tensor:
        """Train a network on the soft labels of each half; return probabilities of the other.

        `name` is ``referee`` or ``teacher``. The probabilities ``(rows, classes)`` are computed
        once: a run that is resumed reads them.
        """
        folder = None if self._folder is None else self._folder / f"{name}s"
        stored = None if folder is None else newest_checkpoint(folder, self._signature)
        if stored is not None and "probabilities" in stored:
            return Tensor(stored["probabilities"])
        learners = self._learners()
        done = 0
        if stored is not None:
            done = int(stored["epoch"])
            for learner, state in zip(learners, stored["learners"], strict=True):
                learner.load(state)
        for epoch in range(done, self._epochs):
            for learner, own, number in zip(learners, self.rows, _PAIRS[name], strict=True):
                self._train(learner, own, targets, (number, epoch), name)
            states = [learner.state() for learner in learners]
            self._keep(folder, epoch + 1, {"epoch": epoch + 1, "learners": states})
        found = self._predicted(learners)
        self._keep(folder, self._epochs + 1, {"probabilities": found})
        return found

    @property
    def _epochs(self) -> int:
        # Two thirds: a third more gained nothing on CIFAR-10.
        return max(1, 2 * self._settings.epochs // 3)

    def _learners(self) -> list[Learner]:
        totals = [
            self._epochs * steps_per_epoch(len(own), self._settings.batch_size) for own in self.rows
        ]
        return [
            Learner(copy.deepcopy(self._network), self._settings, total, self._world)
            for total in totals
        ]

    def _train(
        self, learner: Learner, rows: Tensor, targets: Tensor, place: tuple[int, int], name: str
    ) -> None:
        train_soft_epoch(
            learner,
            self._task,
            rows,
            targets,
            self._pipeline,
            self._settings,
            self._world,
            place,
            title=f"{name}s, epoch {place[1] + 1}",
        )
        rate = self._settings.learning_rate
        check_finite(
            learner.network.state_dict().values(),
            f"Train again with a smaller learning_rate ({rate / 10:g} instead of {rate:g}), or "
            "with precision = 'float32' if it was another.",
        )

    def _predicted(self, learners: list[Learner]) -> Tensor:
        """Return the probabilities of each half, by the network of the other."""
        found = torch.zeros((len(self._task.label), self._task.n_classes))
        for learner, other in zip(learners, reversed(self._sides), strict=True):
            rows = torch.nonzero(other)[:, 0]
            outputs = network_outputs(
                learner.average, self._task.inputs, self._pipeline, self._world, rows
            )
            found[rows] = outputs.logits.softmax(dim=1).cpu()
        return found

    def _keep(self, folder: Path | None, epoch: int, content: dict[str, Any]) -> None:
        if folder is not None and self._world.rank == 0:
            write_checkpoint(folder, epoch, {"signature": self._signature, **content})
