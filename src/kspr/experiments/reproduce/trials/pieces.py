"""Trials on single pieces: the solution path of one, the condition of Theorem 1 on each."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from kspr.core.labels import encode_labels, truly_clean
from kspr.core.metrics import selection_quality
from kspr.core.regression import gamma_path
from kspr.core.theory import irrepresentable_values
from kspr.experiments.reproduce.trials.trial import TrialSpec, principal, selected

__all__ = ["path", "theory"]


def path(spec: TrialSpec) -> Mapping[str, Any]:
    """Return penalty levels, the norm of each row's mean shift at each, and the wrong labels."""
    sample = spec.sample()
    rows = _balanced(sample.label, spec.settings["per_class"], spec.seed)
    labels = encode_labels(sample.label[rows])
    classes, codes = labels.classes, labels.codes
    X = principal(np.asarray(sample.X[rows], dtype=np.float64), len(classes))
    # Residuals of one-hot rows seldom exceed sqrt(2): above 1.4 every shift is zero.
    lams = np.linspace(1.4, 0.02, spec.settings.get("steps", 40))
    gamma = gamma_path(X, np.eye(len(classes))[codes], lams, tol=1e-5)
    truth = sample.label if sample.truth is None else sample.truth
    return {
        "lams": lams,
        # (levels, rows, classes) to (rows, levels).
        "norms": np.linalg.norm(gamma, axis=2).T,
        "wrong": ~truly_clean(sample.label, truth)[rows],
    }


def _balanced(label: np.ndarray, per_class: int, seed: int) -> np.ndarray:
    """Return the numbers of `per_class` rows of each given label, drawn at random."""
    # A second number in the seed: the noise has drawn from the stream of the seed alone.
    rng = np.random.default_rng([seed, 7])
    picked = [rng.permutation(np.flatnonzero(label == k))[:per_class] for k in np.unique(label)]
    return np.sort(np.concatenate(picked))


def theory(spec: TrialSpec) -> Mapping[str, Any]:
    """Return the median irrepresentable value of every piece that SPR splits the data into."""
    sample, selection = selected(spec)
    wrong = ~truly_clean(selection.label, sample.truth)
    piece = selection.cut_groups.piece[selection.cut_group]
    medians = []
    for number in np.unique(piece):
        rows = np.flatnonzero(piece == number)
        X = principal(
            np.asarray(sample.X[rows], dtype=np.float64), len(np.unique(selection.label[rows]))
        )
        # C2 of the paper's Theorem 1; S are the wrong labels, and each right one has a value.
        medians.append(float(np.median(irrepresentable_values(X, wrong[rows]))))
    return {
        "medians": medians,
        "median": float(np.median(medians)),
        "fsr": selection_quality(selection.clean_mask, ~wrong).fsr,
    }
