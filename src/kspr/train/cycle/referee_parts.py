"""Networks that are each trained on all parts of the data but one, and predict that one."""

import copy
from collections.abc import Sequence
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

__all__ = ["Parts", "first_copies", "random_parts"]

_FIRST, _KINDS = 2, ("referee", "teacher")
"""Number of the first learner; 0 and 1 are the cycle's own. Their random numbers differ by it."""


def first_copies(n: int, copies: np.ndarray | None) -> np.ndarray:
    """Return for each of `n` rows the number of its first copy: its own, where there is none.

    `copies` numbers sets of copies as `Selection.copies` does: -1 for a row without any.
    """
    if copies is None:
        return np.arange(n)
    # The first row of each set stands for all of them.
    _, leader, member = np.unique(copies, return_index=True, return_inverse=True)
    return np.where(copies < 0, np.arange(n), leader[member])


def random_parts(label: Tensor, copies: np.ndarray | None, n_parts: int, seed: int) -> Tensor:
    """Return a random part of each row, from 0 to ``n_parts - 1``; copies share one.

    Every part has an equal share of each class, to a row. `copies` is as in `first_copies`.
    """
    first = torch.from_numpy(first_copies(len(label), copies))
    leaders = torch.unique(first)
    # A place of its own: the guard's held-out samples are drawn from the start of this stream.
    shuffled = leaders[torch.randperm(len(leaders), generator=generator_for(seed, "split", 1))]
    part = torch.zeros(len(label), dtype=torch.long)
    for code in torch.unique(label).tolist():
        own = shuffled[label[shuffled] == code]
        # Of rows that do not divide evenly, the last parts have one more.
        part[own] = n_parts - 1 - torch.arange(len(own)).flip(0) * n_parts // len(own)
    return part[first]


class Parts:
    """The parts of a task, and what it takes to train a network on all but each of them.

    Parameters
    ----------
    task
        Rows and labels. Held-out samples are predicted, but trained on by none.
    part
        Number of the part of each row, as `random_parts` gives it.
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
        part: Tensor,
        pipeline: InputPipeline,
        network: Network,
        settings: TrainSettings,
        world: World,
        folder: Path | None,
        signature: dict[str, Any],
    ) -> None:
        self._task, self._pipeline = task, pipeline
        self._asked = [torch.nonzero(part == k)[:, 0] for k in range(settings.referee_parts)]
        self._network, self._settings, self._world = network, settings, world
        self._folder, self._signature = folder, signature
        self.rows = [
            torch.nonzero((part != k) & ~task.held_out)[:, 0] for k in range(len(self._asked))
        ]
        """Row numbers that each network is trained on: all parts but its own."""
        # Each process needs two rows in a step, and at least one to predict.
        if min(map(len, self.rows)) < 2 * world.size or min(map(len, self._asked)) < world.size:
            raise InputError(
                f"There are too few samples for referee_parts={len(self._asked)}: each network "
                f"needs {2 * world.size} to learn from and {world.size} to judge. Pass "
                "referee_parts=2, or select_on='inputs'."
            )

    def predict_across(self, targets: Sequence[Tensor], name: str) -> Tensor:
        """Train a network on all parts but one, for each part; return probabilities of that one.

        `targets` has the soft labels ``(all rows, classes)`` that each network learns. `name` is
        ``referee`` or ``teacher``. The probabilities ``(rows, classes)`` are computed once: a run
        that is resumed reads them.
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
            for k, (learner, own) in enumerate(zip(learners, self.rows, strict=True)):
                number = _FIRST + len(learners) * _KINDS.index(name) + k
                self._train(learner, own, targets[k], (number, epoch), name)
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
        """Return the probabilities of each part, by the network that has not seen it."""
        found = torch.zeros((len(self._task.label), self._task.n_classes))
        for learner, rows in zip(learners, self._asked, strict=True):
            outputs = network_outputs(
                learner.average, self._task.inputs, self._pipeline, self._world, rows
            )
            found[rows] = outputs.logits.softmax(dim=1).cpu()
        return found

    def _keep(self, folder: Path | None, epoch: int, content: dict[str, Any]) -> None:
        if folder is not None and self._world.rank == 0:
            write_checkpoint(folder, epoch, {"signature": self._signature, **content})
