"""Referees judge labels that they have not seen; teachers turn their verdicts into soft labels.

A network makes the labels that it was trained on look right, so a label is judged by a network
that was trained on other parts of the data: a referee. No step of its training has used that label,
so the error rate of a selection by referees means what it means in `ProbabilitySelector`.

Referees are trained on soft labels, from a linear fit to features of the rows that they learn from:
by `KnockoffsSPR`, or by logistic regression where the features are weak. Their probabilities, those
of a linear model on the features, and the given labels make better soft labels for all rows. More
networks, the teachers, are trained on these, again on all parts but one. Teachers have seen every
label through the soft labels: what they say is used to train on, and never to select.
"""

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.special import softmax
from torch import Tensor
from torch.nn import functional

from kspr.core.arrays import to_numpy
from kspr.core.labels import codes_in
from kspr.errors import InputError
from kspr.models.network import Network
from kspr.selectors import KnockoffsSPR
from kspr.selectors.knockoffs_spr import held_out_values
from kspr.train.distributed import World
from kspr.train.learner import Learner
from kspr.train.metrics import check_finite, network_outputs
from kspr.train.pipelines import InputPipeline
from kspr.train.randomness import generator_for
from kspr.train.run_folder import newest_checkpoint, write_checkpoint
from kspr.train.select_step import make_selector
from kspr.train.settings import TrainSettings
from kspr.train.soft_epoch import train_soft_epoch
from kspr.train.soft_labels import (
    SoftLabels,
    combined,
    likely_noise,
    linear_probabilities,
    linear_soft_labels,
    mean_of,
    parts_of,
    soft_labels,
    with_given_labels,
)
from kspr.train.task import Task, steps_per_epoch

__all__ = ["Parts", "Unseen", "ask_referees", "first_copies", "random_parts", "teach"]

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


_SHARPNESS = 10.0
"""Fitted values lie between 0 and 1; the calibration finds the right factor from here."""


class Unseen(NamedTuple):
    """Features that have not seen the labels."""

    values: Tensor
    is_weak: bool = False
    """Whether they know little, because they were learned from the rows at hand. The surest rows of
    a fit to them are of the wrong class too often for the noise to be read off from them."""


def ask_referees(
    parts: Parts,
    task: Task,
    features: Unseen,
    first: np.ndarray,
    settings: TrainSettings,
    world: World,
) -> Tensor:
    """Return class probabilities of every row, by the referee that has not seen its part.

    `first` has for each row the number of its first copy.
    """
    learned = []
    for rows in parts.rows:
        own = functional.one_hot(task.label, task.n_classes).float()
        if world.rank == 0:
            # From these rows alone: otherwise the referee would have seen labels that it judges.
            chance = (_weak_chances if features.is_weak else _linear_chances)(
                features.values, rows, task, first, settings
            )
            own[rows] = torch.from_numpy(chance).float()
        learned.append(world.broadcast(own))
    return parts.predict_across(learned, "referee")


def teach(
    parts: Parts,
    task: Task,
    probabilities: Tensor,
    features: Unseen,
    first: np.ndarray,
    settings: TrainSettings,
    world: World,
) -> tuple[Tensor, Tensor]:
    """Return soft labels of all rows, from the `probabilities` of the referees, and the noise.

    `first` is as in `ask_referees`. The noise is a transition matrix (true class, label).
    """
    label = task.label.numpy()
    found = SoftLabels(*(np.zeros((len(label), task.n_classes)),) * 2, np.eye(task.n_classes))
    if world.rank == 0:
        found = _before_teachers(probabilities, task, features, first, settings.seed)
    # Of rank 0, here and below: processors may round differently.
    start = world.broadcast(torch.from_numpy(found.chance).float())
    taught = parts.predict_across([start] * len(parts.rows), "teacher").numpy().astype(np.float64)
    # To teachers fewer labels look wrong: the noise is that which was found before them, and both
    # are given equal weight, where a likelihood would take the teachers alone.
    calibrated = taught if features.is_weak else soft_labels(taught, label).prior
    chance = with_given_labels(mean_of([calibrated, found.prior]), found.transition, label)
    targets, transition = (
        world.broadcast(torch.from_numpy(part).float()) for part in (chance, found.transition)
    )
    return targets, transition


def _before_teachers(
    probabilities: Tensor, task: Task, features: Unseen, first: np.ndarray, seed: int
) -> SoftLabels:
    """Return soft labels from what referees say and a linear model on `features` together."""
    label, said = task.label.numpy(), probabilities.numpy().astype(np.float64)
    # Parts of their own, however many those of the referees are.
    part = parts_of(first, seed)
    if not features.is_weak:
        return _with_linear(soft_labels(said, label), features.values, label, part)
    linear = linear_soft_labels(to_numpy(features.values), label, part, task.n_classes)
    return likely_noise([said, linear.prior], linear.transition, label)


def _with_linear(
    found: SoftLabels, features: Tensor, label: np.ndarray, part: np.ndarray
) -> SoftLabels:
    """Return soft labels from `found`, by referees, and a linear model through its noise."""
    # The other classes are the true one of no row, and have no chance already.
    present = np.unique(label)
    codes = codes_in(present, label, "label")
    transition = found.transition[np.ix_(present, present)]
    linear = linear_probabilities(to_numpy(features.detach()), codes, transition, part)
    prior = np.zeros_like(found.prior)
    prior[:, present] = combined([found.prior[:, present], linear], transition, codes)
    return SoftLabels(with_given_labels(prior, found.transition, label), prior, found.transition)


def _weak_chances(
    features: Tensor, rows: Tensor, task: Task, first: np.ndarray, settings: TrainSettings
) -> np.ndarray:
    """Return the chance of each class to be the true one, by logistic regression inside `rows`."""
    number = rows.numpy()
    own = to_numpy(features[rows.to(features.device)].detach())
    # Copies share a part, so numbers of rows that are not among these do no harm.
    part = parts_of(first, settings.seed)[number]
    return linear_soft_labels(own, task.label[rows].numpy(), part, task.n_classes).chance


def _linear_chances(
    features: Tensor,
    rows: Tensor,
    task: Task,
    first: np.ndarray,  # noqa: ARG001 - one signature for both; KnockoffsSPR finds copies itself
    settings: TrainSettings,
) -> np.ndarray:
    """Return the chance of each class to be the true one, by `KnockoffsSPR` inside `rows`."""
    label = task.label[rows].numpy()
    # A rare class may have one row here.
    selector = make_selector(settings.changed(selection={"min_class_size": 1}))
    if not isinstance(selector, KnockoffsSPR):
        raise TypeError("Referees learn from KnockoffsSPR; the settings hold another selector.")
    own = features[rows.to(features.device)].detach()
    prepared, values = held_out_values(
        selector, own.numpy() if own.device.type == "cpu" else own, label
    )
    fitted = to_numpy(values).astype(np.float64)
    probabilities = np.zeros((len(rows), task.n_classes))
    probabilities[:, prepared.labels.classes] = softmax(_SHARPNESS * fitted, axis=1)
    return soft_labels(probabilities, label).chance
