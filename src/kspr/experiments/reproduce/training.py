"""Trials that train a network: on all labels, by a method of others, or in the cycle of Alg. 3."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

from kspr.core.labels import truly_clean
from kspr.experiments.baselines import METHODS
from kspr.experiments.baselines.method import train_by
from kspr.experiments.reproduce.data import Sample
from kspr.experiments.reproduce.trials import TrialSpec, levels, quality_of
from kspr.models.build import build_network
from kspr.models.network import BodyNetwork, Network, seeded
from kspr.train.fitting import Trained
from kspr.train.inputs import as_inputs
from kspr.train.settings import TrainSettings

_ASSUMED = 0.2
"""Noise rate that a method is told where nobody knows it: what its users assume of WebVision."""
_COURSE = (
    "epoch",
    "accuracy",
    "accuracy_average",
    "kept",
    "q_reached",
    "q_spread",
    "fsr",
    "recall",
    "f1",
)
"""What is stored of every epoch."""


def train(spec: TrialSpec) -> Mapping[str, Any]:
    """Return accuracies on the test sets, the quality of the last selection, both by epoch."""
    sample, settings = spec.sample(), settings_of(spec)
    values = measured(_trained(spec, sample, settings), sample)
    told = spec.variant.method is not None and METHODS[spec.variant.method].told
    if told and sample.truth is None:
        values["assumed_rate"] = _ASSUMED
    # The network is not a result: checkpoints of a finished trial are only large.
    if spec.work is not None:
        shutil.rmtree(spec.work, ignore_errors=True)
    return values


def settings_of(spec: TrialSpec) -> TrainSettings:
    """Return the training settings of the scale, overridden by those of the variant."""
    given = dict(spec.settings)
    if spec.device is not None:
        given["device"] = spec.device
    base = TrainSettings.from_preset(given.pop("preset"), **{**given, **spec.variant.train})
    if spec.variant.method is not None:
        # SimSiam is part of our cycle; these methods start from random weights.
        base = base.changed(pretrain_epochs=0)
    if spec.variant.selector == "none":
        # Training on all labels is a warm-up that never ends.
        return base.changed(guard=False, select_every=0, warmup_epochs=base.epochs, seed=spec.seed)
    # With another selector than the preset's, the preset's parameters are left out.
    return base.changed(
        selector=spec.variant.selector, selection=spec.variant.parameters, seed=spec.seed
    )


def _trained(spec: TrialSpec, sample: Sample, settings: TrainSettings) -> Trained:
    network = _narrowed(sample, settings) if spec.variant.bottleneck else None
    with one_thread():
        return train_by(
            spec.variant.method,
            sample.X,
            sample.label,
            noise_rate=told_rate(sample),
            settings=settings,
            network=network,
            truth=sample.truth,
            test=sample.test,
            # A part of the data may lack a class that the test set has.
            classes=np.union1d(sample.label, sample.test[1]),
            out=spec.work,
        )


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch on one thread: the order of its sums must not depend on the number of jobs."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def told_rate(sample: Sample) -> float:
    """Return the true share of wrong labels, or an assumed one where it is not known."""
    if sample.truth is None:
        return _ASSUMED
    return float(1 - truly_clean(sample.label, sample.truth).mean())


def _narrowed(sample: Sample, settings: TrainSettings) -> Network:
    """Return the network with a linear layer that reduces its features to a class count."""
    n_classes = len(np.union1d(sample.label, sample.test[1]))
    shape = as_inputs(sample.X, settings.input).shape
    network = build_network(settings.network, n_classes, in_shape=shape, seed=settings.seed)
    if not isinstance(network, BodyNetwork):
        raise TypeError(f"{settings.network} has no body to put a layer on.")
    # The weights of the added layer must depend on the seed, like all others.
    with seeded(settings.seed):
        body = nn.Sequential(network.body, nn.Linear(network.n_features, n_classes))
        return BodyNetwork(body, n_classes, n_classes)


def measured(trained: Trained, sample: Sample) -> dict[str, Any]:
    """Return accuracies, the quality of the selection, and both by epoch."""
    last = trained.history[-1]
    top1, top5 = _tops(trained, *sample.test)
    values = {
        "accuracy": trained.test_accuracy,
        "accuracy_weights": last["accuracy"],
        "top1": top1,
        "top5": top5,
        "model_choice": trained.model_choice,
        **{name: last[name] for name in ("fsr", "recall", "f1", "kept")},
        "course": [{name: line[name] for name in _COURSE} for line in trained.history],
    }
    if trained.clean_mask is not None:
        # Of the selection that belongs to the chosen network, not of the last epoch's.
        values["kept"] = float(trained.clean_mask.mean())
        values |= quality_of(trained.clean_mask, sample)
    if trained.selection is not None:
        values |= levels(trained.selection)
    if sample.transfer is not None:
        values["transfer_top1"], values["transfer_top5"] = _tops(trained, *sample.transfer)
    return values


def _tops(trained: Trained, X: Any, y: np.ndarray) -> tuple[float, float]:
    """Return how often the right class is the first, and among the first five."""
    # A class of the second test set that the network does not know is never right.
    order = np.argsort(-trained.predict_proba(X), axis=1, kind="stable")[:, :5]
    right = trained.classes[order] == np.asarray(y)[:, None]
    return float(right[:, 0].mean()), float(right.any(axis=1).mean())
