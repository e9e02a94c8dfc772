"""How labels go wrong, as a result that users can read and save."""

from dataclasses import dataclass

import numpy as np

from kspr.core.intervals import wilson_interval
from kspr.core.transition import Transition, wrong_share

__all__ = ["NoiseEstimate", "describe_noise"]


@dataclass(frozen=True, eq=False)
class NoiseEstimate:
    """The noise in the labels, under the assumption that it depends on the true class only.

    Rows are true classes, columns are labels, both in the order of `classes`. Intervals are of
    95 % and know of sampling error only: anchors that are not of their class make the noise look
    larger than it is.
    """

    rate: float
    """Share of all labels that are wrong."""
    rate_interval: tuple[float, float]
    transition: np.ndarray
    """Chance of each label given the true class; rows borrow from each other."""
    low: np.ndarray
    """Lower ends for `transition`, from each row's own anchors."""
    high: np.ndarray
    anchors: np.ndarray
    """Samples that each row rests on."""
    classes: np.ndarray

    def __str__(self) -> str:
        low, high = self.rate_interval
        return f"About {self.rate:.1%} of the labels are wrong (95 %: {low:.1%} to {high:.1%})."


def describe_noise(transition: Transition, codes: np.ndarray, classes: np.ndarray) -> NoiseEstimate:
    """Return a transition matrix with its intervals and the overall rate."""
    anchors = transition.counts.sum(axis=1)
    low, high = wilson_interval(transition.counts, anchors[:, None])
    rate, *interval = wrong_share(transition, codes)
    return NoiseEstimate(
        rate=rate,
        rate_interval=(interval[0], interval[1]),
        transition=transition.matrix,
        low=np.minimum(low, transition.matrix),
        high=np.maximum(high, transition.matrix),
        anchors=anchors.astype(np.int64),
        classes=classes,
    )
