"""Trials that train a network: on all labels, on what a peer keeps, or in the cycle of Alg. 3."""

import shutil
import warnings
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from torch import nn

from kspr.core.labels import encode_labels, truly_clean
from kspr.core.metrics import selection_quality
from kspr.experiments.compare.peers import PEERS, Shared
from kspr.experiments.reproduce.sample import Sample
from kspr.experiments.reproduce.trials.networks import measured, one_thread, settings_of
from kspr.experiments.reproduce.trials.trial import TrialSpec, principal
from kspr.models.build import build_network
from kspr.models.network import BodyNetwork, Network, seeded
from kspr.train.fitting import fit
from kspr.train.inputs import as_inputs
from kspr.train.settings import TrainSettings
from kspr.train.trained import Trained

__all__ = ["train"]

_DIMENSIONS = 128
"""Principal components that a peer is given, as in `kspr compare`."""


def train(spec: TrialSpec) -> Mapping[str, Any]:
    """Return accuracies on the test sets, the quality of the last selection, both by epoch."""
    sample, settings = spec.sample(), settings_of(spec)
    kept = None if spec.variant.peer is None else _kept_by_peer(spec, sample)
    trained = _trained(spec, sample if kept is None else sample.only(kept), settings)
    found = measured(trained, sample)
    if kept is not None:
        found |= _fixed_selection(kept, sample, trained)
    # The network is not a result: checkpoints of a finished trial are only large.
    if spec.work is not None:
        shutil.rmtree(spec.work, ignore_errors=True)
    return found


def _kept_by_peer(spec: TrialSpec, sample: Sample) -> np.ndarray:
    """Return the rows that the variant's peer keeps; it sees the features before training."""
    codes = encode_labels(sample.label).codes
    X = principal(np.asarray(sample.X, dtype=np.float32), _DIMENSIONS)
    return PEERS[spec.variant.peer or ""].judge(Shared(X, codes), seed=spec.seed).clean


def _fixed_selection(kept: np.ndarray, sample: Sample, trained: Trained) -> Mapping[str, Any]:
    """Return the quality of a selection made once, repeated for every epoch."""
    found: dict[str, Any] = {"kept": float(kept.mean())}
    if sample.truth is not None:
        found |= asdict(selection_quality(kept, truly_clean(sample.label, sample.truth)))
    course = [
        {**{name: line[name] for name in ("epoch", "accuracy", "accuracy_average")}, **found}
        for line in trained.history
    ]
    # A peer has no level; the columns are there all the same, for the figure.
    return {**found, "course": [{"q_reached": None, "q_spread": None, **line} for line in course]}


def _trained(spec: TrialSpec, sample: Sample, settings: TrainSettings) -> Trained:
    network = _narrowed(sample, settings) if spec.variant.bottleneck else None
    with warnings.catch_warnings(), one_thread():
        # Warnings of the guard are in the history as well.
        warnings.simplefilter("ignore", UserWarning)
        return fit(
            sample.X,
            sample.label,
            settings=settings,
            network=network,
            truth=sample.truth,
            test=sample.test,
            # A part of the data may lack a class that the test set has.
            classes=np.union1d(sample.label, sample.test[1]),
            out=spec.work,
            resume=spec.work is not None and (spec.work / "train.json").is_file(),
        )


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
