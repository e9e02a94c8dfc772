"""The training problem: rows, labels as codes, held-out samples, test set; its network."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from kspr.core.labels import codes_in, encode_labels, truly_clean
from kspr.errors import InputError
from kspr.models.build import build_network
from kspr.models.network import Network, wrap_network
from kspr.selectors.validation import read_labels
from kspr.train.distributed import World
from kspr.train.inputs import Inputs, as_inputs, content_digest
from kspr.train.pipelines import InputPipeline
from kspr.train.randomness import generator_for, seed_for
from kspr.train.run_folder import classes_to_json
from kspr.train.settings import TrainSettings

__all__ = ["Task", "Test", "make_task", "network_for", "signature_of", "steps_per_epoch"]

_LEAST_HELD_OUT = 200
"""Fewer held-out samples could not tell networks apart."""
_LAYOUT = 4
"""Number of the form of a checkpoint, and of what the next epoch makes of it: it changes with them,
so that older ones are refused."""


@dataclass(frozen=True, eq=False)
class Test:
    """Samples with right labels, on which accuracy is measured."""

    inputs: Inputs
    label: Tensor

    __test__ = False  # keeps pytest from collecting this class


@dataclass(frozen=True, eq=False)
class Task:
    """A training set; labels are positions in `classes`."""

    inputs: Inputs
    label: Tensor
    classes: np.ndarray
    held_out: Tensor
    """Mask of the samples that the guard keeps from training."""
    truly_clean: np.ndarray | None = None
    """Whether each label is right, where that is known."""
    test: Test | None = None

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @property
    def given(self) -> np.ndarray:
        """The labels as the user gave them."""
        return np.asarray(self.classes[self.label.numpy()])

    @property
    def all_inputs(self) -> Tensor:
        """All rows as one batch."""
        return self.inputs.take(torch.arange(len(self.inputs)))

    def steps(self, batch_size: int) -> int:
        """Return the number of steps per epoch; held-out samples count too."""
        return steps_per_epoch(len(self.label), batch_size)


@dataclass(frozen=True, eq=False)
class Setup:
    """A task, and what all networks share that learn it."""

    task: Task
    pipeline: InputPipeline
    """How rows become batches."""
    settings: TrainSettings
    world: World
    """The processes that train together."""


def steps_per_epoch(n: int, batch_size: int) -> int:
    """Return the number of steps in an epoch over `n` samples, however many of them are clean."""
    # The learning rate's course is then known from the start, and a small clean set is repeated
    # instead of being trained on less.
    return max(1, n // batch_size)


def make_task(
    X: Any,
    y: Any,
    settings: TrainSettings,
    *,
    truth: Any = None,
    test: tuple[Any, Any] | None = None,
    classes: Any = None,
) -> Task:
    """Check the data, encode the labels and draw the held-out samples.

    `classes` lists all classes; None for those that occur in `y`.
    """
    inputs = as_inputs(X, settings.input)
    labels = read_labels(y, len(inputs), 2)
    known = labels.classes if classes is None else encode_labels(classes, "classes").classes
    codes = _codes(labels.values, known, "y")
    held_out = _held_out(codes, settings.held_out if settings.guard else 0.0, settings.seed)
    if settings.batch_size > 2 and int((~held_out).sum()) < 2:
        raise InputError(f"There are only {len(inputs)} samples; nothing is left to train on.")
    return Task(
        inputs,
        codes,
        known,
        held_out,
        None if truth is None else truly_clean(known[codes.numpy()], truth),
        None if test is None else _test(test, inputs, known, settings),
    )


def _codes(values: Any, classes: np.ndarray, argument: str) -> Tensor:
    return torch.from_numpy(codes_in(classes, values, argument).astype(np.int64))


def _held_out(codes: Tensor, share: float, seed: int) -> Tensor:
    """Return a random mask with `share` of each class; one sample of a class or more is kept.

    If `share` gives fewer than 200 samples, up to a tenth of the data is held out instead.
    """
    mask = torch.zeros(len(codes), dtype=torch.bool)
    if share == 0:
        return mask
    share = max(share, min(0.1, _LEAST_HELD_OUT / len(codes)))
    generator = generator_for(seed, "split")
    shuffled = torch.randperm(len(codes), generator=generator)
    for code in torch.unique(codes).tolist():
        own = shuffled[codes[shuffled] == code]
        # Never a whole class: the networks could not learn it.
        mask[own[: min(round(share * len(own)), len(own) - 1)]] = True
    return mask


def _test(
    test: tuple[Any, Any], inputs: Inputs, classes: np.ndarray, settings: TrainSettings
) -> Test:
    X, y = test
    rows = as_inputs(X, settings.input)
    if rows.shape != inputs.shape:
        raise InputError(
            f"The test set has rows of shape {rows.shape}, the training set of {inputs.shape}."
        )
    if len(rows) != len(y):
        raise InputError(f"The test set has {len(rows)} rows but {len(y)} labels.")
    return Test(rows, _codes(y, classes, "The test set"))


def network_for(
    settings: TrainSettings, n_classes: int, shape: tuple[int, ...], given: nn.Module | None = None
) -> Network:
    """Return the user's network `given`, wrapped, or the one that `settings` names."""
    layer = settings.feature_layer
    if given is None:
        return build_network(
            settings.network,
            n_classes,
            in_shape=shape,
            weights=settings.weights,
            feature_layer=layer,
            # A stream of its own: initial weights do not depend on any other draw of the run.
            seed=seed_for(settings.seed, "network"),
        )
    if not isinstance(given, Network):
        return wrap_network(given, n_classes, in_shape=shape, feature_layer=layer)
    if given.n_classes != n_classes:
        raise InputError(
            f"The network has {given.n_classes} classes but there are {n_classes} in y."
        )
    return given


def signature_of(
    task: Task, settings: TrainSettings, network: nn.Module, processes: int = 1
) -> dict[str, Any]:
    """Return what must be equal for a run to be resumed, each part by a name for people."""
    # Names and shapes, not values: weights change during the run.
    parts = [f"{name}{tuple(value.shape)}" for name, value in network.state_dict().items()]
    # Neither of the two changes the numbers.
    chosen = {k: v for k, v in settings.as_dict().items() if k not in ("device", "strict")}
    return {
        "layout of checkpoints": _LAYOUT,
        "architecture": f"{type(network).__name__} {_digest(' '.join(parts).encode())}",
        "rows": len(task.inputs),
        "shape": list(task.inputs.shape),
        "classes": classes_to_json(task.classes),
        "labels": _digest(np.ascontiguousarray(task.label.numpy()).tobytes()),
        "content of X": content_digest(task.inputs),
        # Shards and their random numbers differ with it.
        "number of processes": processes,
        **{name: json.dumps(value) for name, value in chosen.items()},
    }


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
