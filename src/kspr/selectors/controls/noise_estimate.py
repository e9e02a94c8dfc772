"""The noise that a control estimates, as it is shown and saved."""

from dataclasses import dataclass

import numpy as np

__all__ = ["NoiseEstimate"]


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
