"""Learning from what another method keeps: judged once, on the features as they are."""

import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from kspr.core.labels import encode_labels, truly_clean
from kspr.core.metrics import selection_quality
from kspr.experiments.compare.peers import PEERS, Shared
from kspr.experiments.reproduce.sample import Sample
from kspr.experiments.reproduce.trials.select import levels
from kspr.experiments.reproduce.trials.trial import Job, principal
from kspr.models.build import build_network
from kspr.models.network import BodyNetwork, Network, seeded
from kspr.train.fitting import fit
from kspr.train.inputs import as_inputs
from kspr.train.settings import TrainSettings
from kspr.train.trained import Trained

__all__ = ["judged", "once", "run", "settings_of"]

_DIMENSIONS = 128
"""Principal components that a peer is given, as `kspr compare` does."""


def judged(job: Job, sample: Sample) -> np.ndarray:
    """Return what the variant's peer keeps."""
    codes = encode_labels(sample.label).codes
    X = principal(np.asarray(sample.X, dtype=np.float32), _DIMENSIONS)
    return PEERS[job.variant.peer or ""].judge(Shared(X, codes), seed=job.seed).clean


def once(kept: np.ndarray, sample: Sample, trained: Trained) -> Mapping[str, Any]:
    """Return the quality of a selection that stays the same, epoch for epoch."""
    found: dict[str, Any] = {"kept": float(kept.mean())}
    if sample.truth is not None:
        found |= asdict(selection_quality(kept, truly_clean(sample.label, sample.truth)))
    course = [
        {**{name: line[name] for name in ("epoch", "accuracy", "accuracy_average")}, **found}
        for line in trained.history
    ]
    return {**found, "course": [{"q_reached": None, "q_spread": None, **line} for line in course]}


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
"""What is kept of every epoch."""


def run(job: Job) -> Mapping[str, Any]:
    """Return accuracies on the test sets, the last selection's quality, and the course of both."""
    sample, settings = job.sample(), settings_of(job)
    kept = None if job.variant.peer is None else judged(job, sample)
    trained = _trained(job, sample if kept is None else sample.only(kept), settings)
    found = {**_found(trained, sample), **({} if kept is None else once(kept, sample, trained))}
    if job.work is not None:
        shutil.rmtree(job.work, ignore_errors=True)
    return found


def _trained(job: Job, sample: Sample, settings: TrainSettings) -> Trained:
    network = _narrowed(sample, settings) if job.variant.bottleneck else None
    with warnings.catch_warnings(), _one_thread():
        # What the guard says is in the history.
        warnings.simplefilter("ignore", UserWarning)
        return fit(
            sample.X,
            sample.label,
            settings=settings,
            network=network,
            truth=sample.truth,
            test=sample.test,
            classes=np.union1d(sample.label, sample.test[1]),
            out=job.work,
            resume=job.work is not None and (job.work / "train.json").is_file(),
        )


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let torch sum in one order, however many cells run at once."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def settings_of(job: Job) -> TrainSettings:
    """Return the settings of the scale with the variant's laid over."""
    given = dict(job.settings)
    base = TrainSettings.from_preset(given.pop("preset"), **{**given, **job.variant.train})
    if job.variant.selector == "none":
        return base.changed(guard=False, select_every=0, warmup_epochs=base.epochs, seed=job.seed)
    # The preset's parameters are meant for the preset's selector.
    own = base.selection if base.selector == job.variant.selector else {}
    chosen = {**own, **job.variant.parameters}
    return replace(base, selector=job.variant.selector, selection=chosen, seed=job.seed)


def _narrowed(sample: Sample, settings: TrainSettings) -> Network:
    """Return the network with a linear layer that reduces its features to a class count."""
    n_classes = len(np.union1d(sample.label, sample.test[1]))
    shape = as_inputs(sample.X, settings.input).shape
    network = build_network(settings.network, n_classes, in_shape=shape, seed=settings.seed)
    if not isinstance(network, BodyNetwork):
        raise TypeError(f"{settings.network} has no body to put a layer on.")
    with seeded(settings.seed):
        body = nn.Sequential(network.body, nn.Linear(network.n_features, n_classes))
        return BodyNetwork(body, n_classes, n_classes)


def _found(trained: Trained, sample: Sample) -> dict[str, Any]:
    last = trained.history[-1]
    top1, top5 = _tops(trained, *sample.test)
    found = {
        "accuracy": trained.test_accuracy,
        "accuracy_weights": last["accuracy"],
        "top1": top1,
        "top5": top5,
        "handed_over": trained.handed_over,
        **{name: last[name] for name in ("fsr", "recall", "f1", "kept")},
        "course": [{name: line[name] for name in _COURSE} for line in trained.history],
    }
    if trained.selection is not None:
        found |= levels(trained.selection)
    if sample.transfer is not None:
        found["transfer_top1"], found["transfer_top5"] = _tops(trained, *sample.transfer)
    return found


def _tops(trained: Trained, X: Any, y: np.ndarray) -> tuple[float, float]:
    """Return how often the right class is the first, and among the first five."""
    order = np.argsort(-trained.predict_proba(X), axis=1, kind="stable")[:, :5]
    right = trained.classes[order] == np.asarray(y)[:, None]
    return float(right[:, 0].mean()), float(right.any(axis=1).mean())
