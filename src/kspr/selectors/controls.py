"""How the error rate is estimated: one control a function, each with its own assumption."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kspr.core.cutoffs import combine_levels, q_values
from kspr.core.exchangeable import exchangeable_levels, lead
from kspr.core.knockoffs import all_times
from kspr.core.penalties import Penalty
from kspr.core.transition import (
    Transition,
    count_anchors,
    estimate_transition,
    probability_right,
    transition_levels,
    wrong_among,
)
from kspr.errors import InputError
from kspr.selectors._pieces import Verdicts, number_cut_groups
from kspr.selectors.noise_estimate import NoiseEstimate, describe_noise

__all__ = ["ASSUMPTIONS", "CONTROLS", "Control", "Decision", "Question", "combined"]

_ONE_SIDED = 1.64
"""Standard errors below an estimated share that make it a lower bound, 19 times in 20."""
_SPLIT_LEVEL = 0.8
"""Part of q at which single splits are cut before they are combined."""


@dataclass(frozen=True)
class Question:
    """What a control is asked: verdicts on samples, and how to cut them."""

    codes: np.ndarray
    classes: np.ndarray
    verdicts: Verdicts
    penalty: Penalty
    pooled: bool
    factor: np.ndarray  # of Theorem 2, piece by piece; ones elsewhere
    remove_floor: bool


@dataclass(frozen=True)
class Decision:
    """The smallest level at which each sample is kept, and what was cut together."""

    q_value: np.ndarray
    statistic: np.ndarray
    cut_group: np.ndarray
    table: np.ndarray  # (piece, half, class) of every cut group
    suggested: np.ndarray
    noise: NoiseEstimate | None = None


Control = Callable[[Question], Decision]


def paper(question: Question) -> Decision:
    """Count labels that lost against those that won: Eq. T, with Theorem 2's factor on q."""
    verdicts = question.verdicts
    cut_group, table = number_cut_groups(
        verdicts.piece, verdicts.half, question.codes, pooled=question.pooled
    )
    W = verdicts.values["W"]
    level = q_values(W, cut_group) / question.factor[verdicts.piece]
    return Decision(level, W, cut_group, table, verdicts.values["suggested"])


def exchangeable(question: Question) -> Decision:
    """Compare every label with all others at once."""
    n_classes = len(question.classes)
    if n_classes < 3:
        raise InputError(
            "control='exchangeable' needs at least three classes, got 2: of two, the knockoff of a "
            "wrong label is always the right one. Use control='transition'."
        )
    codes = question.codes
    Z = all_times(question.verdicts.values["prediction"], question.penalty)
    noise = _noise(question)
    floor = _floor(noise, codes) if question.remove_floor else None
    level = exchangeable_levels(Z, codes, floor, pooled=question.pooled)
    own, share = lead(Z, codes)
    statistic = np.where(share >= 0.5, -own, own)
    cut_group, table = _whole(question)
    suggested = question.verdicts.values["suggested"]
    return Decision(
        level,
        statistic,
        cut_group,
        table,
        suggested,
        describe_noise(noise, codes, question.classes),
    )


def transition(question: Question) -> Decision:
    """Solve for the wrong labels below every cut, given how labels go wrong."""
    codes, prediction = question.codes, question.verdicts.values["prediction"]
    noise = _noise(question)
    right, prior = probability_right(prediction, noise.matrix, codes)
    level = transition_levels(right, codes, noise, pooled=question.pooled)
    # What the sample looks like and the label it was given, together.
    suggested = np.argmax(prior * noise.matrix.T[codes].astype(prior.dtype), axis=1)
    own = 1.0 - right[np.arange(len(codes)), codes].astype(np.float64)
    cut_group, table = _whole(question)
    return Decision(
        level, own, cut_group, table, suggested, describe_noise(noise, codes, question.classes)
    )


def combined(decisions: list[Decision], q: float) -> Decision:
    """Return the decision of several splits together; statistics are their means."""
    first = decisions[0]
    if len(decisions) == 1:
        return first
    levels = np.stack([decision.q_value for decision in decisions])
    level = combine_levels(levels, first.cut_group, _SPLIT_LEVEL * q)
    statistic = np.mean([d.statistic for d in decisions], axis=0)
    return Decision(level, statistic, first.cut_group, first.table, first.suggested, first.noise)


def _floor(noise: Transition, codes: np.ndarray) -> np.ndarray:
    """Return a share of wrong labels, class by class, that is certainly not too high.

    The share among those with the label is what the floor is made of. Where it is above the share
    among those of the class, labels do not fall evenly or classes differ much in size; the lower
    of the two then keeps less, and is the one that pair flips do less harm.
    """
    own = 1.0 - np.diag(noise.matrix) - _ONE_SIDED * noise.error
    return np.asarray(np.clip(np.minimum(own, wrong_among(noise, codes, -_ONE_SIDED)), 0.0, 1.0))


def _noise(question: Question) -> Transition:
    verdicts = question.verdicts
    counts = count_anchors(
        verdicts.values["prediction"], question.codes, verdicts.half, len(question.classes)
    )
    return estimate_transition(counts)


def _whole(question: Question) -> tuple[np.ndarray, np.ndarray]:
    """Return cut groups that know no pieces and no halves: one per class, or one for all."""
    nowhere = np.zeros_like(question.codes)
    return number_cut_groups(nowhere, nowhere, question.codes, pooled=question.pooled)


CONTROLS: dict[str, Control] = {
    "transition": transition,
    "exchangeable": exchangeable,
    "paper": paper,
    "theorem": paper,
}

ASSUMPTIONS = {
    "transition": "How a label goes wrong depends on the true class only, and the samples that "
    "look most like a class are of that class.",
    "exchangeable": "A wrong label is any of the wrong classes with equal chance, whatever the "
    "sample looks like.",
    "paper": "Whether a wrong label beats its knockoff does not depend on how well it fits; on "
    "real features it does.",
    "theorem": "As for the paper's estimate, at the smaller level that its Theorem 2 asks for.",
}
"""What must be true for the error rate to hold, by control."""
