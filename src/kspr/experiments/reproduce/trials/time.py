"""How long a selection takes."""

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from kspr.core.labels import truly_clean
from kspr.core.metrics import selection_quality
from kspr.experiments.reproduce.trials.trial import Job, selector_of

__all__ = ["run"]


def run(job: Job) -> Mapping[str, Any]:
    """Return the median of a few selections in seconds, and what was selected meanwhile."""
    sample, selector = job.sample(), selector_of(job)
    seconds = []
    for _ in range(job.settings.get("repeats", 3)):
        start = time.perf_counter()
        selection = selector.fit(sample.X, sample.label).selection_
        seconds.append(time.perf_counter() - start)
    quality = selection_quality(selection.clean_mask, truly_clean(selection.label, sample.truth))
    return {"seconds": float(np.median(seconds)), **asdict(quality), "rows": len(sample.label)}
