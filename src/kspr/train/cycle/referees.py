"""Referees judge labels that they have not seen; teachers turn their verdicts into soft labels.

A network makes the labels that it was trained on look right, so a label is judged by a network
that was trained on other parts of the data: a referee. No step of its training has used that label,
so the error rate of a selection by referees means what it means in `ProbabilitySelector`.

Referees are trained on soft labels, from a linear fit by `KnockoffsSPR` to the rows that they learn
from, or on the given labels where there are no features to fit to. Their probabilities, those of a
linear model on the features, and the given labels make better soft labels for all rows. More
networks, the teachers, are trained on these, again on all parts but one. Teachers have seen every
label through the soft labels: what they say is used to train on, and never to select.
"""

import numpy as np
import torch
from scipy.special import softmax
from torch import Tensor
from torch.nn import functional

from kspr.core.arrays import to_numpy
from kspr.core.labels import codes_in
from kspr.selectors import KnockoffsSPR
from kspr.selectors.knockoffs_spr import held_out_values
from kspr.train.cycle.linear_judge import linear_probabilities, parts_of
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

__all__ = ["ask_referees", "teach"]

_SHARPNESS = 10.0
"""Fitted values lie between 0 and 1; the calibration finds the right factor from here."""


def ask_referees(
    parts: Parts, task: Task, features: Tensor | None, settings: TrainSettings, world: World
) -> Tensor:
    """Return class probabilities of every row, by the referee that has not seen its part.

    `features` have not seen the labels either. Without any (None), the referees learn the given
    labels of the other parts.
    """
    targets = functional.one_hot(task.label, task.n_classes).float()
    if features is None:
        return parts.predict_across([targets] * len(parts.rows), "referee")
    learned = []
    for rows in parts.rows:
        own = targets.clone()
        if world.rank == 0:
            # From these rows alone: otherwise the referee would have seen labels that it judges.
            own[rows] = _linear_chances(features, rows, task, settings)
        learned.append(world.broadcast(own))
    return parts.predict_across(learned, "referee")


def teach(
    parts: Parts,
    task: Task,
    probabilities: Tensor,
    features: Tensor | None,
    first: np.ndarray,
    settings: TrainSettings,
    world: World,
) -> tuple[Tensor, Tensor]:
    """Return soft labels of all rows, from the `probabilities` of the referees, and the noise.

    `features` have not seen the labels, or are None. `first` has for each row the number of its
    first copy. The noise is a transition matrix (true class, label).
    """
    label = task.label.numpy()
    said = probabilities.numpy().astype(np.float64)
    found = soft_labels(said, label)
    if features is None:
        found = likely_noise(said, found.transition, label)
    elif world.rank == 0:
        found = _with_linear(found, features, label, first, settings.seed)
    # Of rank 0, here and below: processors may round differently.
    start = world.broadcast(torch.from_numpy(found.chance).float())
    taught = parts.predict_across([start] * len(parts.rows), "teacher").numpy().astype(np.float64)
    if features is None:
        found = likely_noise(mean_of([taught, said]), found.transition, label)
        chance = found.chance
    else:
        # To teachers fewer labels look wrong: the noise is that which the referees found, and both
        # are given equal weight, where a likelihood would take the teachers alone.
        prior = mean_of([soft_labels(taught, label).prior, found.prior])
        chance = with_given_labels(prior, found.transition, label)
    targets, transition = (
        world.broadcast(torch.from_numpy(part).float()) for part in (chance, found.transition)
    )
    return targets, transition


def _with_linear(
    found: SoftLabels, features: Tensor, label: np.ndarray, first: np.ndarray, seed: int
) -> SoftLabels:
    """Return soft labels from `found`, by referees, and a linear model on `features` together."""
    # The other classes are the true one of no row, and have no chance already.
    present = np.unique(label)
    codes = codes_in(present, label, "label")
    transition = found.transition[np.ix_(present, present)]
    # Parts of their own, however many those of the referees are.
    linear = linear_probabilities(
        to_numpy(features.detach()), codes, transition, parts_of(first, seed)
    )
    prior = np.zeros_like(found.prior)
    prior[:, present] = combined([found.prior[:, present], linear], transition, codes)
    return SoftLabels(with_given_labels(prior, found.transition, label), prior, found.transition)


def _linear_chances(features: Tensor, rows: Tensor, task: Task, settings: TrainSettings) -> Tensor:
    """Return the chance of each class to be the true one, by a linear fit inside `rows`."""
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
    return torch.from_numpy(soft_labels(probabilities, label).chance).float()
