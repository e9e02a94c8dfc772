"""What a cell is told, and the selector that its variant stands for."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kspr.experiments.reproduce.data import open_sample
from kspr.experiments.reproduce.recipes import Variant
from kspr.experiments.reproduce.sample import Sample, corrupted
from kspr.selectors import SPR, KnockoffsSPR, Selection, from_preset

__all__ = ["Job", "principal", "selected", "selector_of"]


@dataclass(frozen=True)
class Job:
    """One cell, resolved."""

    source: Mapping[str, Any]
    noise: str
    variant: Variant
    settings: Mapping[str, Any]
    seed: int
    folder: Path | None = None
    """Where data is looked for; None for the usual places."""
    work: Path | None = None
    """Folder in which a long cell keeps what it needs to go on after it was killed."""

    def sample(self) -> Sample:
        """Return the data with this cell's noise."""
        return corrupted(open_sample(self.source, self.folder), self.noise, self.seed)


def selector_of(job: Job) -> SPR | KnockoffsSPR:
    """Return the selector of the variant, with the cell's seed."""
    chosen = {"random_state": job.seed, "progress": False, **job.variant.parameters}
    return from_preset(job.variant.selector, **chosen)


def selected(job: Job) -> tuple[Sample, Selection]:
    """Return the data of the cell, and what its variant selects."""
    sample = job.sample()
    return sample, selector_of(job).fit(sample.X, sample.label).selection_


def principal(X: np.ndarray, dimensions: int) -> np.ndarray:
    """Return the leading principal components of the rows."""
    left, scale, _ = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    return np.asarray((left * scale)[:, :dimensions])
