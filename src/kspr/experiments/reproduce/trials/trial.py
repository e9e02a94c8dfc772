"""The description of a trial, and what most kinds of trial start with."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kspr.experiments.reproduce.data import open_sample
from kspr.experiments.reproduce.recipes import Variant
from kspr.experiments.reproduce.sample import Sample, corrupted
from kspr.selectors import SPR, KnockoffsSPR, Selection, from_preset

__all__ = ["TrialSpec", "principal", "selected", "selector_of"]


@dataclass(frozen=True)
class TrialSpec:
    """One variant on one data set with one noise and one seed, before it is run."""

    kind: str
    """A name in `kspr.experiments.reproduce.trials.KINDS`."""
    data: str
    """The paper's name of the data set."""
    source: Mapping[str, Any]
    """The data that is used for it here, as `open_sample` reads it."""
    noise: str
    variant_name: str
    variant: Variant
    settings: Mapping[str, Any]
    seed: int
    folder: Path | None = None
    """Where data is looked for; None for the usual places."""
    work: Path | None = None
    """Folder for the checkpoints of a long trial, from which it continues after a stop."""

    def sample(self) -> Sample:
        """Return the data with this trial's noise."""
        return corrupted(open_sample(self.source, self.folder), self.noise, self.seed)


def selector_of(spec: TrialSpec) -> SPR | KnockoffsSPR:
    """Return the selector of the variant, with the trial's seed."""
    chosen = {"random_state": spec.seed, "progress": False, **spec.variant.parameters}
    return from_preset(spec.variant.selector, **chosen)


def selected(spec: TrialSpec) -> tuple[Sample, Selection]:
    """Return the data of the trial, and what its variant selects."""
    sample = spec.sample()
    return sample, selector_of(spec).fit(sample.X, sample.label).selection_


def principal(X: np.ndarray, dimensions: int) -> np.ndarray:
    """Return the rows in their leading principal components."""
    # Left vectors times singular values are the centred rows times the right vectors.
    left, scale, _ = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    return np.asarray((left * scale)[:, :dimensions])
