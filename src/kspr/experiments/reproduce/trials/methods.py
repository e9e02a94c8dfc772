"""Trials of a training method of others, on the network, data and settings of ours."""

import shutil
from collections.abc import Mapping
from typing import Any

import numpy as np

from kspr.core.labels import truly_clean
from kspr.experiments.baselines import make_method
from kspr.experiments.baselines.trainer import fit_method
from kspr.experiments.reproduce.sample import Sample
from kspr.experiments.reproduce.trials.networks import measured, one_thread, settings_of
from kspr.experiments.reproduce.trials.trial import TrialSpec

__all__ = ["method", "told_rate"]

_ASSUMED = 0.2
"""Noise rate that a method is told where nobody knows it: what its users assume of WebVision."""


def method(spec: TrialSpec) -> Mapping[str, Any]:
    """Return accuracies on the test sets, and what the method trained on, by epoch."""
    sample, rule = spec.sample(), make_method(spec.variant.method or "standard")
    with one_thread():
        trained = fit_method(
            sample.X,
            sample.label,
            rule,
            # SimSiam is part of our cycle; these methods start from random weights.
            settings=settings_of(spec).changed(pretrain_epochs=0),
            noise_rate=told_rate(sample) if rule.needs_noise_rate else None,
            truth=sample.truth,
            test=sample.test,
            classes=np.union1d(sample.label, sample.test[1]),
            out=spec.work,
            resume=spec.work is not None and (spec.work / "train.json").is_file(),
        )
        found = measured(trained, sample)
    if spec.work is not None:
        shutil.rmtree(spec.work, ignore_errors=True)
    return found


def told_rate(sample: Sample) -> float:
    """Return the true share of wrong labels, or an assumed one where it is not known."""
    if sample.truth is None:
        return _ASSUMED
    return float(1 - truly_clean(sample.label, sample.truth).mean())
