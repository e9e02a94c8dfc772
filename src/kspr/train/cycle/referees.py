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

from typing import NamedTuple

import numpy as np
import torch
from scipy.special import softmax
from torch import Tensor
from torch.nn import functional

from kspr.core.arrays import to_numpy
from kspr.core.labels import codes_in
from kspr.selectors import KnockoffsSPR
from kspr.selectors.knockoffs_spr import held_out_values
from kspr.train.cycle.linear_judge import linear_probabilities, linear_soft_labels, parts_of
from kspr.train.cycle.referee_parts import Parts
from kspr.train.cycle.select_step import make_selector
from kspr.train.cycle.soft_labels import (
    SoftLabels,
    combined,
    likely_noise,
    mean_of,
    soft_labels,
    with_given_labels,
)
from kspr.train.cycle.task import Task
from kspr.train.distributed import World
from kspr.train.settings import TrainSettings

__all__ = ["Unseen", "ask_referees", "teach"]

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
