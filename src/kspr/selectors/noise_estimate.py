"""How labels go wrong: what each control assumes, and the noise that it estimates.

A saved selection is read without loading what fits one, so nothing heavy is imported here.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from kspr.core.transition import Transition

__all__ = ["ASSUMPTIONS", "SEEN_LABELS", "NoiseEstimate", "describe_noise"]

ASSUMPTIONS = {
    "transition": "How a label goes wrong depends on the true class only, and the samples that "
    "look most like a class are of that class.",
    "exchangeable": "A wrong label is any of the wrong classes with equal chance, whatever the "
    "sample looks like.",
    "paper": "Whether a wrong label beats its knockoff does not depend on how well it fits; on "
    "real features it does.",
    "annotators": "Given the true class, annotators err independently of each other and of what a "
    "row looks like, up to one correction that the labels of a row give each other. Errors that "
    "most annotators share are not seen.",
    "theorem": "As for the paper's estimate, at the smaller level of its Theorem 2.",
}
"""What must be true for the error rate to hold, by control."""

SEEN_LABELS = (
    "The features were made without these labels. They come from a network that has seen them, so "
    "the rate is an estimate that is too low: where 10 % was asked for, 13 to 15 % of the kept "
    "labels were wrong in our measurements (docs/training.md)."
)
"""What a rate would need, and lacks, if the features come from a network in training."""


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
    """Chance of each label given the true class; rows are shrunken towards each other. Empty for
    more than 1,024 classes, and so are its ends: 20,000 classes have 400 million pairs."""
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


def describe_noise(
    transition: "Transition", sizes: np.ndarray, classes: np.ndarray
) -> NoiseEstimate:
    """Return a transition matrix with its intervals and the overall rate.

    `sizes` are the numbers of samples that have each label.
    """
    from scipy.sparse import csr_array

    from kspr.core.intervals import wilson_interval
    from kspr.core.transition import wrong_share

    counts, matrix = transition.counts, transition.matrix
    anchors = counts.sum(axis=1)
    low = high = matrix
    if transition.written:
        ends = wilson_interval(csr_array(counts).toarray(), anchors[:, None])
        # Shrinkage can move an entry out of the interval of its own anchors.
        low, high = np.minimum(ends[0], matrix), np.maximum(ends[1], matrix)
    rate, *interval = wrong_share(transition, sizes)
    return NoiseEstimate(
        rate=rate,
        rate_interval=(interval[0], interval[1]),
        transition=matrix,
        low=low,
        high=high,
        anchors=anchors.astype(np.int64),
        classes=classes,
    )
