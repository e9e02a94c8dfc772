"""The solution path of one small piece: how mean shifts grow as the penalty falls."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from kspr.core.labels import encode_labels, truly_clean
from kspr.core.regression import gamma_path
from kspr.experiments.reproduce.trials.trial import Job, principal

__all__ = ["run"]


def run(job: Job) -> Mapping[str, Any]:
    """Return the levels, the norm of every row's shift at each, and which labels are wrong."""
    sample = job.sample()
    rows = _balanced(sample.label, job.settings["per_class"], job.seed)
    labels = encode_labels(sample.label[rows])
    classes, codes = labels.classes, labels.codes
    X = principal(np.asarray(sample.X[rows], dtype=np.float64), len(classes))
    lams = np.linspace(1.4, 0.02, job.settings.get("steps", 40))
    gamma = gamma_path(X, np.eye(len(classes))[codes], lams, tol=1e-5)
    truth = sample.label if sample.truth is None else sample.truth
    return {
        "lams": lams,
        "norms": np.linalg.norm(gamma, axis=2).T,
        "wrong": ~truly_clean(sample.label, truth)[rows],
    }


def _balanced(label: np.ndarray, per_class: int, seed: int) -> np.ndarray:
    """Return as many rows of each given label."""
    rng = np.random.default_rng([seed, 7])
    picked = [rng.permutation(np.flatnonzero(label == k))[:per_class] for k in np.unique(label)]
    return np.sort(np.concatenate(picked))
