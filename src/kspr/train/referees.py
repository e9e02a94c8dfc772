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
from typing import NamedTuple

import numpy as np
import torch
from scipy.special import softmax
from torch import Tensor
from torch.nn import functional

from kspr.core.labels import codes_in
from kspr.errors import InputError
from kspr.models.network import Network
from kspr.selectors import KnockoffsSPR
from kspr.selectors.held_out import held_out_values
from kspr.train.learner import Learner, Pools, check_tensor, train_epoch
from kspr.train.run_folder import Checkpoints
from kspr.train.settings import make_selector
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
from kspr.train.task import Setup, network_outputs, steps_per_epoch
from kspr.train.world import generator_for

_FIRST, _KINDS = 2, ("referee", "teacher")
"""Number of the first learner; 0 and 1 are the cycle's own. Their random numbers differ by it."""


def first_copies(n: int, copies: np.ndarray | None) -> np.ndarray:
    """Return for each of `n` rows the number of its first copy: its own, where there is none.

    `copies` numbers sets of copies as `Selection.duplicate_set` does: -1 for a row without any.
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
    """The parts of a task, and networks that are each trained on all parts but one.

    Parameters
    ----------
    setup
        What is learned. Held-out samples are predicted, but trained on by none.
    part
        Number of the part of each row, as `random_parts` gives it.
    network
        Initial weights; it is copied, and not changed.
    checkpoints
        Where the state after each epoch is written, and continued from.
    """

    def __init__(
        self, setup: Setup, part: Tensor, network: Network, checkpoints: Checkpoints
    ) -> None:
        self.setup, self._network, self._checkpoints = setup, network, checkpoints
        numbers, world = range(setup.settings.referee_parts), setup.world
        self._asked = [torch.nonzero(part == k)[:, 0] for k in numbers]
        self.rows = [torch.nonzero((part != k) & ~setup.task.held_out)[:, 0] for k in numbers]
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
        checkpoints = self._checkpoints.of(f"{name}s")
        stored = checkpoints.newest()
        task, learners, done = self.setup.task, self._learners(), 0
        with checkpoints.fitting():
            if stored is not None and "probabilities" in stored:
                shape = (len(task.label), task.n_classes)
                check_tensor(stored["probabilities"], shape, torch.float32)
                return Tensor(stored["probabilities"])
            if stored is not None:
                done = int(stored["epoch"])
                for learner, state in zip(learners, stored["learners"], strict=True):
                    learner.load(state)
        for epoch in range(done, self._epochs):
            for k, (learner, rows) in enumerate(zip(learners, self.rows, strict=True)):
                number = _FIRST + len(learners) * _KINDS.index(name) + k
                # Both pools are the same rows, each in its own order: partners are random rows.
                pools, title = Pools(rows, rows, targets[k]), f"{name}s, epoch {epoch + 1}"
                place, n = (number, epoch), len(rows)
                train_epoch(learner, self.setup, pools, place, n_rows=n, title=title)
            states = [learner.state() for learner in learners]
            checkpoints.write(epoch + 1, {"epoch": epoch + 1, "learners": states})
        probabilities = torch.zeros((len(task.label), task.n_classes))
        pipeline, world = self.setup.pipeline, self.setup.world
        for learner, rows in zip(learners, self._asked, strict=True):
            outputs = network_outputs(learner.average, task.inputs, pipeline, world, rows)
            probabilities[rows] = outputs.logits.softmax(dim=1).cpu()
        checkpoints.write(self._epochs + 1, {"probabilities": probabilities})
        return probabilities

    @property
    def _epochs(self) -> int:
        # Two thirds: a third more gained nothing on CIFAR-10.
        return max(1, 2 * self.setup.settings.epochs // 3)

    def _learners(self) -> list[Learner]:
        settings, world = self.setup.settings, self.setup.world
        totals = [self._epochs * steps_per_epoch(len(r), settings.batch_size) for r in self.rows]
        return [Learner(copy.deepcopy(self._network), settings, n, world) for n in totals]


_SHARPNESS = 10.0
"""Fitted values lie between 0 and 1; the calibration finds the right factor from here."""


class Unseen(NamedTuple):
    """Features that have not seen the labels."""

    values: Tensor
    is_weak: bool = False
    """Whether they know little, because they were learned from the rows at hand. The surest rows of
    a fit to them are of the wrong class too often for the noise to be read off from them."""

    @property
    def array(self) -> np.ndarray:
        """The features as an array on the host."""
        return self.values.detach().cpu().numpy()


def ask_referees(parts: Parts, features: Unseen, first: np.ndarray) -> Tensor:
    """Return class probabilities of every row, by the referee that has not seen its part.

    `first` has for each row the number of its first copy.
    """
    task, world = parts.setup.task, parts.setup.world
    learned = []
    for rows in parts.rows:
        targets = functional.one_hot(task.label, task.n_classes).float()
        if world.rank == 0:
            # From these rows alone: otherwise the referee would have seen labels that it judges.
            chance = _chances(parts.setup, features, rows, first)
            targets[rows] = torch.from_numpy(chance).float()
        learned.append(world.broadcast(targets))
    return parts.predict_across(learned, "referee")


def teach(
    parts: Parts, probabilities: Tensor, features: Unseen, first: np.ndarray
) -> tuple[Tensor, Tensor]:
    """Return soft labels of all rows, from the `probabilities` of the referees, and the noise.

    `first` is as in `ask_referees`. The noise is a transition matrix (true class, label).
    """
    task, world = parts.setup.task, parts.setup.world
    label, k = task.label.numpy(), task.n_classes
    before = SoftLabels(np.zeros((len(label), k)), np.zeros((len(label), k)), np.eye(k))
    if world.rank == 0:
        before = _before_teachers(parts.setup, probabilities, features, first)
    # Of rank 0, here and below: processors may round differently.
    start = world.broadcast(torch.from_numpy(before.chance).float())
    taught = parts.predict_across([start] * len(parts.rows), "teacher").numpy().astype(np.float64)
    # To teachers fewer labels look wrong: the noise is that which was estimated before them, and
    # both are given equal weight, where a likelihood would take the teachers alone.
    calibrated = taught if features.is_weak else soft_labels(taught, label).prior
    chance = with_given_labels(mean_of([calibrated, before.prior]), before.transition, label)
    targets, transition = (
        world.broadcast(torch.from_numpy(part).float()) for part in (chance, before.transition)
    )
    return targets, transition


def _before_teachers(
    setup: Setup, probabilities: Tensor, features: Unseen, first: np.ndarray
) -> SoftLabels:
    """Return soft labels from what referees say and a linear model on `features` together."""
    label, said = setup.task.label.numpy(), probabilities.numpy().astype(np.float64)
    # Other parts than those of the referees, however many these are.
    part = parts_of(first, setup.settings.seed)
    if features.is_weak:
        linear = linear_soft_labels(features.array, label, part, setup.task.n_classes)
        return likely_noise([said, linear.prior], linear.transition, label)
    before = soft_labels(said, label)
    # A class that no row is labelled with is the true one of none, and has no chance already.
    present = np.unique(label)
    codes = codes_in(present, label, "label")
    transition, prior = before.transition[np.ix_(present, present)], np.zeros_like(before.prior)
    fitted = linear_probabilities(features.array, codes, transition, part)
    prior[:, present] = combined([before.prior[:, present], fitted], transition, codes)
    return SoftLabels(with_given_labels(prior, before.transition, label), prior, before.transition)


def _chances(setup: Setup, features: Unseen, rows: Tensor, first: np.ndarray) -> np.ndarray:
    """Return the chance of each class to be the true one, by a linear model inside `rows`."""
    values = features.array[rows.numpy()]
    label, k = setup.task.label[rows].numpy(), setup.task.n_classes
    if features.is_weak:
        # Copies share a part, so numbers of rows that are not among these do no harm.
        part = parts_of(first, setup.settings.seed)[rows.numpy()]
        return linear_soft_labels(values, label, part, k).chance
    # A rare class may have one row here.
    selector = make_selector(setup.settings.changed(selection={"min_class_size": 1}))
    if not isinstance(selector, KnockoffsSPR):
        raise TypeError("Referees learn from KnockoffsSPR; the settings hold another selector.")
    held_out = held_out_values(selector, values, label)
    probabilities = np.zeros((len(rows), k))
    sharp = _SHARPNESS * held_out.values.astype(np.float64)
    probabilities[:, held_out.classes] = softmax(sharp, axis=1)
    return soft_labels(probabilities, label).chance
