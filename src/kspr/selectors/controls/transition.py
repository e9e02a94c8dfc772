"""The control for noise that depends on the true class only, and the noise that it estimates."""

from dataclasses import dataclass

import numpy as np

from kspr.core.intervals import wilson_interval
from kspr.core.transition import (
    Transition,
    best_class,
    count_anchors,
    estimate_transition,
    probability_right,
    transition_levels,
    wrong_share,
)
from kspr.core.votes import with_votes
from kspr.selectors.controls.control import Decision, Question, whole_cut_groups

__all__ = ["NoiseEstimate", "describe_noise", "estimate_noise", "transition"]


def transition(question: Question) -> Decision:
    """Return the decision from the estimated noise: the wrong labels below every cut follow."""
    codes, prediction = question.codes, question.verdicts.values["prediction"]
    noise = estimate_noise(question)
    right, prior = probability_right(prediction, noise.matrix, codes)
    if question.votes is not None:
        right = with_votes(right, question.votes, noise.matrix, question.neighbours)
    level = transition_levels(right, codes, noise, pooled=question.pooled)
    suggested, chance = best_class(prior, noise.matrix, codes)
    own = 1.0 - right[np.arange(len(codes)), codes].astype(np.float64)
    cut_group, table = whole_cut_groups(question)
    described = describe_noise(noise, codes, question.classes)
    return Decision(level, own, cut_group, table, suggested, described, chance)


def estimate_noise(question: Question) -> Transition:
    """Return how labels go wrong, from the labels of the samples that look most like each class."""
    prediction, half = question.verdicts.values["prediction"], question.verdicts.half
    codes = question.codes
    if question.repeated is not None:
        # A hundred copies of one label are one observation of how labels go wrong.
        once = ~question.repeated
        prediction, codes, half = prediction[once], codes[once], half[once]
    counts = count_anchors(prediction, codes, half, len(question.classes))
    return estimate_transition(counts)


@dataclass(frozen=True, eq=False)
class NoiseEstimate:
    """The noise in the labels, under the assumption that it depends on the true class only.

    Rows are true classes, columns are labels, both in the order of `classes`. Intervals contain the
    sampling error of the anchors only. They are no confidence intervals for the true noise: anchors
    that are not of their class make it look larger than it is, most of all with few rows per class,
    and noise that depends on the features makes it look smaller.
    """

    rate: float
    """Share of all labels that are wrong."""
    rate_interval: tuple[float, float]
    """Lower and upper end for `rate`."""
    transition: np.ndarray
    """Chance of each label given the true class; rows are shrunken towards each other."""
    low: np.ndarray
    """Lower ends for `transition`, from each row's own anchors."""
    high: np.ndarray
    """Upper ends."""
    anchors: np.ndarray
    """Number of samples that each row is estimated from."""
    classes: np.ndarray
    """The classes, sorted."""

    def __str__(self) -> str:
        low, high = self.rate_interval
        return (
            f"About {self.rate:.1%} of the labels are wrong "
            f"(sampling error: {low:.1%} to {high:.1%})."
        )


def describe_noise(transition: Transition, codes: np.ndarray, classes: np.ndarray) -> NoiseEstimate:
    """Return a transition matrix with its intervals and the overall rate."""
    anchors = transition.counts.sum(axis=1)
    low, high = wilson_interval(transition.counts, anchors[:, None])
    rate, *interval = wrong_share(transition, codes)
    return NoiseEstimate(
        rate=rate,
        rate_interval=(interval[0], interval[1]),
        transition=transition.matrix,
        # Shrinkage can move an entry out of the interval of its own anchors.
        low=np.minimum(low, transition.matrix),
        high=np.maximum(high, transition.matrix),
        anchors=anchors.astype(np.int64),
        classes=classes,
    )
