"""Learning from what another method keeps: judged once, on the features as they are."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from kspr.core.metrics import selection_quality
from kspr.experiments.cells._job import Job
from kspr.experiments.cells._pieces import principal
from kspr.experiments.peers import PEERS, Shared
from kspr.experiments.samples import Sample
from kspr.train.trained import Trained

__all__ = ["judged", "once"]

_DIMENSIONS = 128
"""Principal components that a peer is given, as `kspr compare` does."""


def judged(job: Job, sample: Sample) -> np.ndarray:
    """Return what the variant's peer keeps."""
    _, codes = np.unique(sample.label, return_inverse=True)
    X = principal(np.asarray(sample.X, dtype=np.float32), _DIMENSIONS)
    return PEERS[job.variant.peer or ""].judge(Shared(X, codes), seed=job.seed).clean


def once(kept: np.ndarray, sample: Sample, trained: Trained) -> Mapping[str, Any]:
    """Return the quality of a selection that stays the same, epoch for epoch."""
    found: dict[str, Any] = {"kept": float(kept.mean())}
    if sample.truth is not None:
        found |= asdict(selection_quality(kept, sample.label == sample.truth))
    course = [
        {**{name: line[name] for name in ("epoch", "accuracy", "accuracy_average")}, **found}
        for line in trained.history
    ]
    return {**found, "course": [{"q_reached": None, "q_spread": None, **line} for line in course]}
