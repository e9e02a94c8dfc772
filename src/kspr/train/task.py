"""The training problem and its measurement: rows, labels as codes, held-out samples, accuracy."""

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from kspr.core.labels import codes_in, encode_labels, truly_clean
from kspr.core.metrics import SelectionQuality, selection_quality
from kspr.errors import InputError
from kspr.models.build import build_network
from kspr.models.network import Network, Outputs, evaluating, wrap_network
from kspr.selectors.validation import read_labels
from kspr.train.inputs import InputPipeline, Inputs, as_inputs, content_digest
from kspr.train.run_folder import classes_to_json
from kspr.train.settings import TrainSettings
from kspr.train.world import World, generator_for, seed_for

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


_ROWS = 1024
"""Rows per batch for vectors; a quarter of it for images."""


def network_outputs(
    network: nn.Module,
    inputs: Inputs,
    pipeline: InputPipeline,
    world: World,
    rows: Tensor | None = None,
) -> Outputs:
    """Return features and logits of `rows` (None: all), on the network's device.

    The network computes in evaluation mode, and inputs are not augmented.
    """
    rows = torch.arange(len(inputs)) if rows is None else rows
    # Each rank computes its share, and all ranks get all rows back below.
    own = world.shard(rows)
    size = _ROWS if len(inputs.shape) == 1 else _ROWS // 4
    parts = []
    with evaluating(network):
        for part in torch.split(own, size):
            # Moved as bytes where the inputs are images: a quarter of the transfer.
            outputs = network(pipeline.plain_view(inputs.take(part).to(world.device)))
            parts.append((outputs.features.float(), outputs.logits.float()))
    features, logits = (torch.cat(values) for values in zip(*parts, strict=True))
    n = len(rows)
    return Outputs(world.all_gather(features, n), world.all_gather(logits, n))


def check_finite(values: Iterable[Tensor], way_out: str) -> None:
    """Raise `InputError` if the weights or outputs of a network are not all finite numbers."""
    if not all(bool(torch.isfinite(v).all()) for v in values if v.is_floating_point()):
        raise InputError(f"The network diverged: its numbers became NaN or infinite. {way_out}")


def check_converged(values: Iterable[Tensor], settings: TrainSettings) -> None:
    """Raise `InputError` if `values` of a network in training are not all finite numbers."""
    rate = settings.learning_rate
    check_finite(
        values,
        f"Train again with a smaller learning_rate ({rate / 10:g} instead of {rate:g}), or "
        "with precision = 'float32' if it was another.",
    )


def accuracy(scores: Tensor, label: Tensor) -> float:
    """Return the share of rows whose largest score is that of their label; nan without rows."""
    if len(label) == 0:
        return float("nan")
    return float((scores.argmax(dim=1) == label.to(scores.device)).float().mean())


class Performance(NamedTuple):
    """How well one network predicts: a learner's weights, or their average."""

    right: Tensor
    """Mask over the held-out samples: true where the given label is predicted."""
    worth: Tensor
    """What each prediction is worth by `credit_table`: networks are compared by its mean."""
    test_accuracy: float | None
    """Accuracy on the test set; None without one."""

    @property
    def mean_worth(self) -> float:
        """Estimate of the accuracy on the true labels of the held-out samples; nan without any."""
        return float(self.worth.double().mean()) if len(self.worth) else float("nan")

    @property
    def held_out(self) -> float:
        """Share of the held-out samples whose given label is predicted."""
        return float(self.right.double().mean()) if len(self.right) else float("nan")


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """The metrics of one epoch; None where something is not measured."""

    epoch: int
    """Number of the epoch, from 1."""
    loss: float
    """Mean training loss of the cycle."""
    reference_loss: float | None = None
    """Mean training loss of the reference."""
    rate: float
    """Learning rate at the end of the epoch."""
    accuracy: float | None = None
    """Accuracy of the weights on the test set."""
    accuracy_average: float | None = None
    """Accuracy of the averaged weights on the test set."""
    reference_accuracy: float | None = None
    """Accuracy of the reference's weights on the test set."""
    reference_accuracy_average: float | None = None
    """Accuracy of the reference's averaged weights on the test set."""
    held_out: float | None = None
    """Share of held-out given labels that the better of weights and average predicts."""
    reference_held_out: float | None = None
    """The same for the reference."""
    kept: float
    """Share of all labels that the last selection keeps."""
    used: float
    """Share of all labels that the next epoch is trained on."""
    q_reached: float | None = None
    """Mean level that the cut groups of the kept samples reached."""
    q_spread: float | None = None
    """Standard deviation of that level over the cut groups."""
    quality: SelectionQuality | None = None
    """FSR, recall and F1 of the selection, where the truth is known."""
    notes: tuple[str, ...] = ()
    """Messages of the guard."""
    seconds: float
    """Duration of the epoch, selection included."""
    select_seconds: float = 0.0
    """Duration of the selection."""

    @property
    def select_share(self) -> float:
        """Share of the epoch's duration that the selection took."""
        return self.select_seconds / self.seconds if self.seconds else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return the metrics as one flat dictionary that JSON can hold."""
        flat = asdict(self)
        # The same keys in every line, with or without truth, so that a table can be made of them.
        quality = flat.pop("quality") or dict.fromkeys(("fsr", "recall", "f1"))
        line = {**flat, **quality, "select_share": self.select_share, "notes": list(self.notes)}
        return {name: _plain(value) for name, value in line.items()}


def _plain(value: Any) -> Any:
    # JSON has no nan, and six digits are more than any of these numbers means.
    if isinstance(value, float):
        return None if math.isnan(value) else float(f"{value:.6g}")
    return value


def performance_of(
    network: nn.Module,
    task: Task,
    pipeline: InputPipeline,
    world: World,
    credit: Tensor | None = None,
) -> Performance:
    """Return the performance of a network on held-out and test samples.

    `credit` is what `credit_table` returns; None counts given labels.
    """
    rows = torch.nonzero(task.held_out)[:, 0]
    given, predicted = task.label[rows], task.label[:0]
    if len(rows):
        scores = network_outputs(network, task.inputs, pipeline, world, rows).logits
        predicted = scores.argmax(dim=1).cpu()
    right = predicted == given
    worth = right.float() if credit is None else credit[given, predicted]
    if task.test is None:
        return Performance(right, worth, None)
    scores = network_outputs(network, task.test.inputs, pipeline, world).logits
    return Performance(right, worth, accuracy(scores, task.test.label))


def better(performances: dict[str, Performance], learner: str) -> Performance:
    """Return the performance of the better of a learner's two networks."""
    weights, average = performances[f"{learner} weights"], performances[f"{learner} average"]
    # Without held-out samples both means are nan, and the comparison takes the average.
    return weights if weights.mean_worth > average.mean_worth else average


def quality_of(mask: Tensor | None, truly_clean: np.ndarray | None) -> SelectionQuality | None:
    """Return FSR, recall and F1 of a selection; None without one, or if the truth is unknown."""
    if mask is None or truly_clean is None:
        return None
    return selection_quality(mask.cpu().numpy(), truly_clean)
