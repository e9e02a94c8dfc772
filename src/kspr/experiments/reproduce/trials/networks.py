"""What all trials that train a network share: settings, one thread, and what is measured."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch

from kspr.core.labels import truly_clean
from kspr.core.metrics import selection_quality
from kspr.experiments.reproduce.sample import Sample
from kspr.experiments.reproduce.trials.selections import levels
from kspr.experiments.reproduce.trials.trial import TrialSpec
from kspr.train.settings import TrainSettings
from kspr.train.trained import Trained

__all__ = ["measured", "one_thread", "settings_of"]

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


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch on one thread: the order of its sums must not depend on the number of jobs."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def settings_of(spec: TrialSpec) -> TrainSettings:
    """Return the training settings of the scale, overridden by those of the variant."""
    given = dict(spec.settings)
    base = TrainSettings.from_preset(given.pop("preset"), **{**given, **spec.variant.train})
    if spec.variant.selector == "none":
        # Training on all labels is a warm-up that never ends.
        return base.changed(guard=False, select_every=0, warmup_epochs=base.epochs, seed=spec.seed)
    # The preset's parameters are meant for the preset's selector.
    own = base.selection if base.selector == spec.variant.selector else {}
    chosen = {**own, **spec.variant.parameters}
    select_on = base.select_on
    if select_on == "referees" and spec.variant.selector != "default":
        # Referees learn from our selector; the paper's selectors judge the network itself.
        select_on = "network"
    return replace(
        base,
        selector=spec.variant.selector,
        select_on=select_on,
        selection=chosen,
        seed=spec.seed,
    )


def measured(trained: Trained, sample: Sample) -> dict[str, Any]:
    """Return accuracies, the quality of the selection, and both by epoch."""
    last = trained.history[-1]
    top1, top5 = _tops(trained, *sample.test)
    found = {
        "accuracy": trained.test_accuracy,
        "accuracy_weights": last["accuracy"],
        "top1": top1,
        "top5": top5,
        "model_choice": trained.model_choice,
        **_quality(trained, sample),
        "course": [{name: line[name] for name in _COURSE} for line in trained.history],
    }
    if trained.selection is not None:
        found |= levels(trained.selection)
    if sample.transfer is not None:
        found["transfer_top1"], found["transfer_top5"] = _tops(trained, *sample.transfer)
    return found


def _quality(trained: Trained, sample: Sample) -> dict[str, Any]:
    """Return how good the run's selection is: the one that belongs to its network."""
    last = trained.history[-1]
    found = {name: last[name] for name in ("fsr", "recall", "f1", "kept")}
    if trained.clean_mask is None:
        return found
    found["kept"] = float(trained.clean_mask.mean())
    if sample.truth is not None:
        right = truly_clean(sample.label, sample.truth)
        found |= asdict(selection_quality(trained.clean_mask, right))
    return found


def _tops(trained: Trained, X: Any, y: np.ndarray) -> tuple[float, float]:
    """Return how often the right class is the first, and among the first five."""
    # A class of the second test set that the network does not know is never right.
    order = np.argsort(-trained.predict_proba(X), axis=1, kind="stable")[:, :5]
    right = trained.classes[order] == np.asarray(y)[:, None]
    return float(right[:, 0].mean()), float(right.any(axis=1).mean())
