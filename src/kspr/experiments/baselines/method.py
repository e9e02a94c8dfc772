"""`Method`: the rule of a training method; `fit_method` trains by it, as `kspr.train.fit` by ours.

A rule is a frozen dataclass of its constants. Everything that changes while it trains lies in
`Run.memory`, which a checkpoint holds: so every method can be resumed.
"""

import copy
import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from kspr._progress import Progress
from kspr.errors import InputError
from kspr.experiments.baselines import make_method
from kspr.models.network import BodyNetwork, Network, Outputs, seeded
from kspr.train.fitting import Procedure, Trained, Training, fit, set_up
from kspr.train.guard import ModelChoice
from kspr.train.inputs import InputPipeline
from kspr.train.learner import Learner, Pools, epoch_batches
from kspr.train.settings import TrainSettings
from kspr.train.task import (
    Epoch,
    Setup,
    Task,
    check_finite,
    network_for,
    network_outputs,
    performance_of,
    quality_of,
)
from kspr.train.world import World, generator_for, seed_for

T = TypeVar("T")
KEPT = "kept"
"""Entry of `Run.memory`: a mask of the rows that batches are drawn from. Without it: all rows."""


class Batch(NamedTuple):
    """The rows of one step."""

    rows: Tensor
    """Row numbers, on the CPU."""
    label: Tensor
    """Their given labels."""
    taken: Tensor
    """The rows themselves, before augmentation."""
    view: Tensor
    """Input of the network: augmented and scaled."""
    draws: torch.Generator
    """Random numbers of this epoch's batches."""


@dataclass
class Run:
    """A training run, as its method sees it."""

    task: Task
    pipeline: InputPipeline
    settings: TrainSettings
    world: World
    learners: list[Learner]
    noise_rate: float | None = None
    """Share of wrong labels, for methods that must be told it."""
    memory: dict[str, Any] = field(default_factory=dict)
    """What the method remembers from step to step: tensors by name."""
    epoch: int = 0
    """Number of epochs that are done, over all stages."""

    @property
    def stage(self) -> int:
        """Number of the stage, from 0."""
        return self.epoch // self.settings.epochs

    @property
    def epoch_of_stage(self) -> int:
        """Number of epochs of this stage that are done."""
        return self.epoch % self.settings.epochs

    @property
    def progress(self) -> float:
        """Share of this stage that is done: the constants of the papers are for long runs."""
        return self.epoch_of_stage / self.settings.epochs

    @property
    def stage_is_done(self) -> bool:
        """Whether the epoch that was finished last also ended a stage."""
        return self.epoch > 0 and self.epoch_of_stage == 0

    @property
    def one_hot(self) -> Tensor:
        """The given labels as rows of zeros with a one."""
        label = self.task.label
        return nn.functional.one_hot(label, self.task.n_classes).float().to(self.world.device)

    def few_or_many(self, few: T, many: T) -> T:
        """Return `few` for up to 50 classes: authors tune on CIFAR-10 and on CIFAR-100."""
        return few if self.task.n_classes <= 50 else many

    def outputs(self, k: int = 0, rows: Tensor | None = None) -> Outputs:
        """Return features and logits of all rows by learner `k`, without augmentation."""
        network = self.learners[k].network
        return network_outputs(network, self.task.inputs, self.pipeline, self.world, rows)

    def probabilities(self, k: int = 0) -> Tensor:
        """Return the probabilities of all classes, for all rows, by learner `k`."""
        return self.outputs(k).logits.softmax(dim=1)

    def logits(self, batch: Batch) -> list[Tensor]:
        """Return the logits of a batch by every learner, with gradients."""
        return [learner.logits(batch.view) for learner in self.learners]

    def batch_losses(self, batch: Batch) -> list[Tensor]:
        """Return the cross-entropy of every row of a batch by every learner, with gradients."""
        return cross_entropies(self.logits(batch), batch.label)

    def training_outputs(self, batch: Batch) -> Outputs:
        """Return features and logits of a batch by the first learner, with gradients."""
        with self.learners[0].precision():
            outputs = self.learners[0].network(batch.view)
        return Outputs(outputs.features.float(), outputs.logits.float())

    def row_losses(self, k: int = 0) -> Tensor:
        """Return the cross-entropy of every row's given label by learner `k`."""
        return cross_entropies([self.outputs(k).logits], self.task.label.to(self.world.device))[0]


def cross_entropies(logits: Sequence[Tensor], label: Tensor) -> list[Tensor]:
    """Return the cross-entropy of every row by every network."""
    return [nn.functional.cross_entropy(each, label, reduction="none") for each in logits]


class Method:
    """The rule of a training method; by itself it is plain training on all given labels."""

    n_learners: int = 1
    """Networks that are trained side by side on the same batches; the first is the result."""
    n_stages: int = 1
    """Times that the epochs are run; each stage begins with networks that have learned nothing."""
    needs_noise_rate: bool = False
    """Whether it must be told the share of wrong labels."""

    def begin(self, run: Run) -> None:
        """Fill the memory before the first epoch."""

    def losses(self, run: Run, batch: Batch) -> Sequence[Tensor]:
        """Return the loss of each learner on a batch."""
        return [nn.functional.cross_entropy(logits, batch.label) for logits in run.logits(batch)]

    def after_epoch(self, run: Run) -> None:
        """Change labels or rows between two epochs."""

    def finish(self, run: Run, network: Network) -> None:
        """Change the network that the run ends with, in place."""


def classifier_of(network: nn.Module) -> nn.Linear:
    """Return the linear layer that turns a network's features into logits."""
    if not isinstance(network, BodyNetwork):
        raise InputError(
            "This method needs a network of kspr: a body and a linear classifier on its features. "
            "Leave feature_layer out, or choose a network by name."
        )
    return network.head


def train_by(
    name: str | None, X: Any, y: Any, *, noise_rate: float | None, out: Path | None, **given: Any
) -> Trained:
    """Train by the method called `name`, or by our cycle for None; continue the run in `out`.

    The method is told the noise rate only if it must be. Other arguments are those of `fit_method`.
    """
    given = {**given, "out": out, "resume": out is not None and (out / "train.json").is_file()}
    with warnings.catch_warnings():
        # Warnings of the guard are in the history of the run.
        warnings.simplefilter("ignore", UserWarning)
        if name is None:
            return fit(X, y, **given)
        rule = make_method(name)
        rate = noise_rate if rule.needs_noise_rate else None
        return fit_method(X, y, rule, noise_rate=rate, **given)


def fit_method(
    X: Any,
    y: Any,
    method: Method,
    *,
    settings: TrainSettings | str = "cpu",
    noise_rate: float | None = None,
    network: nn.Module | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    on_epoch: Callable[[Epoch], None] | None = None,
    about: dict[str, Any] | None = None,
    **data: Any,
) -> Trained:
    """Train a network by `method` on labels that are partly wrong.

    Parameters
    ----------
    X, y, settings, network, out, resume, on_epoch, about, **data
        As for `kspr.train.fit`. What the settings say of selections and of the guard is not used.
    method
        A rule, such as ``make_method("co-teaching")``.
    noise_rate
        Share of wrong labels, for methods that must be told it.

    Returns
    -------
    Trained
        The averaged weights of the first network; there is no selection in it.
    """
    chosen = TrainSettings.from_preset(settings) if isinstance(settings, str) else settings
    # The guard belongs to our cycle: its held-out rows would be lost to this method.
    chosen = chosen.changed(guard=False)
    _check(method, noise_rate, chosen)
    with set_up(X, y, chosen, out, resume, **data) as (setup, folder):
        if setup.world.size > 1:
            # What a method remembers of each row is not shared between processes.
            raise InputError(
                f"{type(method).__name__} trains in one process, and torchrun started "
                f"{setup.world.size}."
            )
        stages = _Stages(setup, method, noise_rate, network)
        rule = {"method": type(method).__name__, **vars(method), "noise_rate": noise_rate}
        training = Training(setup, stages.network, folder, method=json.dumps(rule))
        return training.run(stages, training.begin(resume, about or {}), on_epoch)


def _check(method: Method, noise_rate: float | None, settings: TrainSettings) -> None:
    name = type(method).__name__
    if method.needs_noise_rate and noise_rate is None:
        raise InputError(
            f"{name} must be told the share of wrong labels, which `kspr select` estimates: pass "
            "noise_rate=0.2 if a fifth is wrong."
        )
    if noise_rate is not None and not 0 <= noise_rate < 1:
        raise InputError(
            f"noise_rate must lie in [0, 1), got {noise_rate}. It is a share: write 0.2 for 20 %."
        )
    if noise_rate is not None and not method.needs_noise_rate:
        raise InputError(f"{name} is not told the noise rate; leave noise_rate out.")
    if settings.pretrain_epochs:
        raise InputError(
            f"pretrain_epochs must be 0 for {name}: SimSiam is part of our cycle. Start from its "
            "weights with `weights` instead."
        )


class _Stages(Procedure):
    """A method as a procedure of training: its stages, one after the other."""

    def __init__(
        self,
        setup: Setup,
        method: Method,
        noise_rate: float | None,
        network: nn.Module | None,
    ) -> None:
        self._method, self._given = method, network
        self._run = Run(setup.task, setup.pipeline, setup.settings, setup.world, [], noise_rate)
        self._run.learners = self._new_learners()
        self.n_epochs = method.n_stages * setup.settings.epochs

    @property
    def epoch(self) -> int:
        return self._run.epoch

    @property
    def network(self) -> nn.Module:
        return self._run.learners[0].network

    @property
    def clean_mask(self) -> np.ndarray | None:
        kept = self._run.memory.get(KEPT)
        return None if kept is None else kept.numpy()

    def begin(self) -> None:
        self._method.begin(self._run)

    def _new_learners(self) -> list[Learner]:
        """Return networks that have learned nothing, each with initial weights of its own."""
        run = self._run
        total = run.settings.epochs * run.task.steps(run.settings.batch_size)
        return [
            Learner(self._network(k), run.settings, total, run.world)
            for k in range(self._method.n_learners)
        ]

    def _network(self, k: int) -> Any:
        run = self._run
        # A network of the user's own starts as it is, in every stage and for every learner.
        given, seed = copy.deepcopy(self._given), run.settings.seed
        if k > 0:
            seed = seed_for(seed, "network", k) % 2**31
        shape = run.task.inputs.shape
        return network_for(run.settings.changed(seed=seed), run.task.n_classes, shape, given)

    def checkpoint(self) -> dict[str, Any]:
        return {
            "learners": [learner.state() for learner in self._run.learners],
            "memory": self._run.memory,
            "epoch": self._run.epoch,
        }

    def load(self, stored: dict[str, Any]) -> None:
        self.begin()
        for learner, state in zip(self._run.learners, stored["learners"], strict=True):
            learner.load(state)
        self._run.memory, self._run.epoch = dict(stored["memory"]), int(stored["epoch"])

    def train(self) -> Epoch:
        run, start = self._run, time.perf_counter()
        if run.stage_is_done:
            run.learners = self._new_learners()
        loss = self._loss()
        run.epoch += 1
        self._method.after_epoch(run)
        accuracies = [
            performance_of(network, run.task, run.pipeline, run.world).test_accuracy
            for network in run.learners[0].candidates().values()
        ]
        kept = run.memory.get(KEPT)
        share = 1.0 if kept is None else float(kept.double().mean())
        return Epoch(
            epoch=run.epoch,
            loss=loss,
            rate=run.learners[0].rate,
            accuracy=accuracies[0],
            accuracy_average=accuracies[1],
            kept=share,
            used=share,
            quality=quality_of(kept, run.task.truly_clean),
            seconds=time.perf_counter() - start,
        )

    def _loss(self) -> float:
        """Train all learners for an epoch on the same batches; return the first one's mean loss."""
        run, steps = self._run, self._run.task.steps(self._run.settings.batch_size)
        total = torch.zeros((), device=run.world.device)
        for learner in run.learners:
            learner.start_training()
        # The places of `kspr.train`, so that plain training draws the same numbers there and here.
        layers = seed_for(run.settings.seed, "layers", 0, run.epoch, 0)
        with (
            seeded(layers, run.world.device),
            Progress("auto", f"epoch {run.epoch + 1}", steps) as bar,
        ):
            for batch in self._batches(steps):
                losses = self._method.losses(run, batch)
                for learner, loss in zip(run.learners, losses, strict=True):
                    learner.learn(loss)
                total += losses[0].detach()
                bar.advance()
        for learner in run.learners:
            check_finite(
                learner.network.state_dict().values(),
                f"Train again with a smaller learning_rate than {run.settings.learning_rate:g}.",
            )
        return float(total) / steps

    def _batches(self, steps: int) -> Iterator[Batch]:
        run = self._run
        rows = torch.nonzero(run.memory.get(KEPT, torch.ones_like(run.task.label)))[:, 0]
        order = generator_for(run.settings.seed, "order", 0, run.epoch)
        draws = generator_for(run.settings.seed, "batch", 0, run.epoch, 0)
        pools = Pools(rows, rows[:0])
        for batch in epoch_batches(pools, steps, run.settings.batch_size, 0.0, order):
            taken = run.task.inputs.take(batch.clean).to(run.world.device)
            label = run.task.label[batch.clean].to(run.world.device)
            view = run.pipeline.train_view(taken, draws)
            yield Batch(batch.clean, label, taken, view, draws)

    def finish(self) -> ModelChoice:
        run, average = self._run, self._run.learners[0].average.module
        self.network.load_state_dict(average.state_dict())
        self._method.finish(run, run.learners[0].network)
        accuracy = performance_of(self.network, run.task, run.pipeline, run.world).test_accuracy
        name = f"{type(self._method).__name__} average"
        return ModelChoice(self.network.state_dict(), name, run.epoch, {}, accuracy)
