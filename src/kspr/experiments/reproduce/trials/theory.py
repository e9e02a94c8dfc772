"""The irrepresentable condition of Theorem 1, piece by piece."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from kspr.core.labels import truly_clean
from kspr.core.metrics import selection_quality
from kspr.core.theory import irrepresentable_values
from kspr.experiments.reproduce.trials.trial import Job, principal, selected

__all__ = ["run"]


def run(job: Job) -> Mapping[str, Any]:
    """Return the median irrepresentable value of every piece that SPR splits the data into."""
    sample, selection = selected(job)
    wrong = ~truly_clean(selection.label, sample.truth)
    piece = selection.cut_groups.piece[selection.cut_group]
    medians = []
    for number in np.unique(piece):
        rows = np.flatnonzero(piece == number)
        X = principal(
            np.asarray(sample.X[rows], dtype=np.float64), len(np.unique(selection.label[rows]))
        )
        medians.append(float(np.median(irrepresentable_values(X, wrong[rows]))))
    return {
        "medians": medians,
        "median": float(np.median(medians)),
        "fsr": selection_quality(selection.clean_mask, ~wrong).fsr,
    }
