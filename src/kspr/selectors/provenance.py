"""What a selection rests on: how it was computed, and how labels go wrong by its estimate.

A saved selection is read without loading what fits one, so nothing heavy is imported here.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

ASSUMPTIONS = {
    "people": "Assumes that labels go wrong by their true class, and where the data show it more "
    "often on unclear rows: people mislabel the hard cases more often.",
    "transition": "Assumes a cat is mislabelled equally often whether or not it looks like a dog.",
    "exchangeable": "Assumes that a wrong label is any of the wrong classes with equal chance, "
    "whatever the row looks like.",
    "paper": "Assumes that whether a wrong label beats its knockoff does not depend on how well it "
    "fits; on real features it does.",
    "annotators": "Assumes that, given the true class and what a row looks like, annotators err "
    "independently of each other; as far as the labels of a row say otherwise, that they err like "
    "one person. Errors that most annotators share are not seen where no feature shows them.",
    "theorem": "As for the paper's estimate, at the smaller error rate of its Theorem 2.",
}
"""What must be true for the error rate to hold, by control."""

SEEN_LABELS = (
    "The features were made without these labels. They come from a network that has seen them, so "
    "the rate is an estimate that is too low: where 10 % was asked for, 13 to 15 % of the kept "
    "labels were wrong in our measurements (docs/training.md)."
)
"""What a rate would need, and lacks, if the features come from a network in training."""


@dataclass(frozen=True)
class Manifest:
    """Everything that is needed to compute the same result again, except the data."""

    method: str
    """Class of the selector."""
    parameters: dict[str, Any]
    """Its parameters; objects by their repr."""
    seed: int
    """Seed of the random numbers, as drawn from ``random_state``."""
    n_samples: int
    n_features: int
    fingerprint: str
    """Digest of features and labels."""
    versions: dict[str, str]
    """Versions of Python and of the packages that the result depends on."""
    seen_labels: bool = False
    """Whether the features come from a network that was trained on these labels: then the error
    rate is an estimate that is too low."""


@dataclass(frozen=True, eq=False, repr=False)
class NoiseEstimate:
    """The noise in the labels.

    Rows are true classes, columns are labels, both in the order of `classes`. Intervals of the
    matrix contain sampling error only. They are no confidence intervals for the true noise.
    """

    rate: float
    """Share of all labels that are wrong; by the checked rows, once there are some."""
    rate_interval: tuple[float, float]
    """Two ends for `rate`: what it is if mistakes depend on the class only, and if people mistake
    what looks alike, the smaller first. Once rows drawn at random have been checked, an
    interval of 95 %."""
    transition: np.ndarray
    """Chance of each label given the true class; rows are shrunken towards each other. Empty for
    more than 1,024 classes, and so are its ends: 20,000 classes have 400 million pairs."""
    low: np.ndarray
    """Lower ends for `transition`."""
    high: np.ndarray
    """Upper ends."""
    anchors: np.ndarray
    """Number of samples that each row is estimated from."""
    classes: np.ndarray
    """The classes, sorted."""
    checked: bool = False
    """Whether a person's answers say what `rate` is."""

    def __repr__(self) -> str:
        # A session that ends a line with it shows the sentence, not its arrays.
        return str(self)

    def __str__(self) -> str:
        rate, low, high = (f"{100 * share:.1f} %" for share in (self.rate, *self.rate_interval))
        if self.checked:
            return (
                f"{rate} of all labels are wrong, by the checked rows and the fit (95 %: {low} to "
                f"{high})."
            )
        if low == high:
            return f"About {rate} of all labels are wrong."
        return f"About {rate} of all labels are wrong: {low} to {high}, by the kind of mistakes."
