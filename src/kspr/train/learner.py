"""`Learner`: a network in training with its average and optimiser; `train_epoch` trains it.

An epoch learns the given labels of some rows, mixed with other rows under pseudo-labels (Alg. 3),
or soft labels of all rows (referees): its `Pools` say which.
"""

import copy
import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from kspr._progress import Progress, ProgressMode
from kspr.errors import InputError
from kspr.models.network import Network, evaluating, seeded
from kspr.train.settings import TrainSettings
from kspr.train.task import Setup, check_converged, steps_per_epoch
from kspr.train.world import World, generator_for, seed_for


def cosine_rate(step: int, total: int, base: float) -> float:
    """Return the rate of `step`, counted from 0: half a cosine from `base` down to 0 at `total`.

    It depends on the step alone, so a resumed run needs no state of it.
    """
    return base * 0.5 * (1 + math.cos(math.pi * step / total)) if step < total else 0.0


def make_optimizer(
    network: nn.Module, rate: float, momentum: float, weight_decay: float
) -> torch.optim.SGD:
    """Return SGD with momentum on every parameter that is not frozen."""
    # Weight decay on all of them, as in the paper and in the ResNets it builds on; leaving out
    # biases and norms is a rule for very large batches.
    learning = [p for p in network.parameters() if p.requires_grad]
    if not learning:
        raise InputError("network has no parameter that learns; all of them are frozen.")
    return torch.optim.SGD(learning, lr=rate, momentum=momentum, weight_decay=weight_decay)


def averaged(network: Network, decay: float) -> AveragedModel:
    """Return a moving average of `network`; call ``update_parameters(network)`` after each step.

    The first update copies the weights; each later one keeps `decay` of the average. Batch
    statistics are averaged too. The average is in evaluation mode and has no gradients.
    """
    follow = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call] # torch leaves it untyped
    average = AveragedModel(network, multi_avg_fn=follow, use_buffers=True)
    average.requires_grad_(False)
    average.eval()
    return average


class Learner:
    """A network in training, with its average and optimiser; a guarded run has two."""

    def __init__(
        self, network: Network, settings: TrainSettings, total_steps: int, world: World
    ) -> None:
        self.network = network.to(world.device)
        if settings.channels_last:
            self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        # A longer average than a tenth of the run would still contain the random initial weights.
        decay = min(settings.ema_decay, max(0.5, 1 - 10 / total_steps))
        self.average = averaged(self.network, decay)
        self.steps = 0
        # Wrapped for gradients only; the average and checkpoints use the plain network.
        self._model = world.wrap(self.network)
        self._settings, self._total, self._world = settings, total_steps, world
        self._optimizer = make_optimizer(
            self.network, settings.learning_rate, settings.momentum, settings.weight_decay
        )

    @property
    def rate(self) -> float:
        """The learning rate of the next step."""
        return cosine_rate(self.steps, self._total, self._settings.learning_rate)

    def logits(self, batch: Tensor) -> Tensor:
        """Return the logits of a batch, with gradients."""
        if self._settings.channels_last and batch.ndim == 4:
            batch = batch.contiguous(memory_format=torch.channels_last)
        with self.precision():
            logits: Tensor = self._model(batch).logits
        # Losses in float32: bfloat16 has three digits.
        return logits.float()

    def precision(self) -> AbstractContextManager[Any]:
        """Return the context that sets the precision in which the network computes."""
        half = self._settings.precision == "bfloat16"
        return torch.autocast(self._world.device.type, torch.bfloat16, enabled=half)

    def learn(self, loss: Tensor) -> None:
        """Take one step of the optimiser and update the average."""
        for group in self._optimizer.param_groups:
            # From the step's number alone: no scheduler has a state that could be lost.
            group["lr"] = self.rate
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]  # torch's own gap
        self._optimizer.step()
        self.average.update_parameters(self.network)
        self.steps += 1

    def start_training(self) -> None:
        """Put the network in training mode."""
        self._model.train()

    def broadcast_statistics(self) -> None:
        """Copy the batch statistics of rank 0 to all ranks; each has seen other samples."""
        if self._world.size == 1:
            return
        for module in (self.network, self.average):
            for buffer in module.buffers():
                buffer.copy_(self._world.broadcast(buffer))

    def state(self) -> dict[str, Any]:
        """Return everything that the next step depends on, for a checkpoint."""
        return {
            "network": self.network.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "steps": self.steps,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Restore `state`."""
        self.network.load_state_dict(state["network"])
        self.average.load_state_dict(state["average"])
        load_optimizer(self._optimizer, state["optimizer"])
        self.steps = int(state["steps"])

    def candidates(self) -> dict[str, nn.Module]:
        """Return the networks that a run may end with: the weights and their average."""
        return {"weights": self.network, "average": self.average}


def load_optimizer(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Restore the state of SGD; raise `ValueError` if its momentum is of other parameters."""
    # torch keeps the tensors it is given: two learners would share their momentum.
    optimizer.load_state_dict(copy.deepcopy(state))
    # torch would notice in the next step.
    for parameter, own in optimizer.state.items():
        check_tensor(own.get("momentum_buffer"), parameter.shape, parameter.dtype)


def check_tensor(value: Any, shape: Sequence[int], dtype: torch.dtype) -> None:
    """Raise `ValueError` unless `value` is None or a tensor of this shape and type."""
    if value is None:
        return
    if not isinstance(value, Tensor) or value.shape != tuple(shape) or value.dtype != dtype:
        raise ValueError("a tensor has another shape or type")


class Pools(NamedTuple):
    """Rows that the batches of an epoch are drawn from, and their labels."""

    clean: Tensor
    """Numbers of the samples whose labels are used."""
    rejected: Tensor
    """Numbers of the samples that are mixed in; may be empty."""
    targets: Tensor | None = None
    """Soft labels of all samples. None uses the given labels, and pseudo-labels of `rejected`."""


class Batch(NamedTuple):
    """Row numbers of one step."""

    clean: Tensor
    rejected: Tensor | None
    """As many rows as `clean`, to be mixed with them; None for a step without mixing."""


def epoch_batches(
    pools: Pools, n_steps: int, batch_size: int, probability: float, generator: torch.Generator
) -> Iterator[Batch]:
    """Yield `n_steps` batches; each is mixed with rejected samples with `probability`.

    Every clean row is used before any is used again.
    """
    size = min(batch_size, len(pools.clean))
    clean = torch.split(_shuffled(pools.clean, n_steps * size, generator), size)
    mixed = torch.rand(n_steps, generator=generator) < probability
    if len(pools.rejected) == 0 or not mixed.any():
        yield from (Batch(rows, None) for rows in clean)
        return
    # Drawn for every step, mixed or not: step k then has the same rows for any probability.
    rejected = torch.split(_shuffled(pools.rejected, n_steps * size, generator), size)
    for k in range(n_steps):
        yield Batch(clean[k], rejected[k] if mixed[k] else None)


def _shuffled(rows: Tensor, n: int, generator: torch.Generator) -> Tensor:
    """Return `n` rows: all of them in random order, repeated in new orders."""
    rounds = -(-n // len(rows))
    orders = [torch.randperm(len(rows), generator=generator) for _ in range(rounds)]
    return rows[torch.cat(orders)[:n]]


def mean_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy of labels or soft targets: Eq. loss-supervised, loss-cutmix.

    The caller chooses the clean rows (the indicator in the first equation). Without a row, the loss
    and its gradient are 0.
    """
    # cross_entropy gives nan for the mean over no rows.
    if not len(targets):
        return logits.sum()
    return functional.cross_entropy(logits, targets)


def pseudo_labels(
    network: nn.Module, views: Sequence[Tensor], *, temperature: float = 1.0
) -> Tensor:
    """Return probabilities (n, classes) to replace the labels of rejected samples.

    They are the mean of the network's probabilities over `views` (batches of the same samples),
    raised to ``1 / temperature`` and normalised to sum 1. The network computes in evaluation mode,
    without gradients; its mode is restored.

    The paper says that rejected samples serve "as unlabeled data" and mixes their label
    ``y_noisy`` in. It does not say where that label comes from (the model or its average), whether
    it is hard or soft, or whether it is sharpened. Two views and temperature 0.5 are MixMatch's.
    """
    with evaluating(network):
        logits = torch.stack([network(view).logits.float() for view in views])
        # Logarithms throughout: a class at 1e-30 must not turn into 0 ** (1 / temperature).
        mean = logits.log_softmax(2).logsumexp(0)
        return (mean / temperature).softmax(1)


def train_epoch(
    learner: Learner,
    setup: Setup,
    pools: Pools,
    place: tuple[int, int],
    *,
    n_rows: int | None = None,
    title: str = "",
) -> float:
    """Train `learner` for one epoch and return its mean loss; raise `InputError` if it diverges.

    `place` is the number of the learner and of the epoch: all random numbers follow from it and
    from the seed. Every rank goes through the same batches and trains on its shard of each.
    `n_rows` is what the number of steps follows from; None for the size of the task. `title` names
    the progress bar.
    """
    settings, world = setup.settings, setup.world
    # The order is the same on all ranks, augmentation and mixing are not.
    order = generator_for(settings.seed, "order", *place)
    draws = generator_for(settings.seed, "batch", *place, world.rank)
    layers = seed_for(settings.seed, "layers", *place, world.rank)
    n = len(setup.task.label) if n_rows is None else n_rows
    steps = steps_per_epoch(n, settings.batch_size)
    total = torch.zeros((), device=world.device)
    batches = epoch_batches(pools, steps, settings.batch_size, settings.mix_probability, order)
    learner.start_training()
    # One bar for all ranks.
    mode: ProgressMode = "auto" if world.rank == 0 else False
    title = title or f"epoch {place[1] + 1}"
    with seeded(layers, world.device), Progress(mode, title, steps) as bar:
        for batch in batches:
            # Alg. 3, lines 6 and 8; features (line 7) are computed after the epoch, in one pass.
            loss = _loss(learner, setup, batch, pools.targets, draws)
            learner.learn(loss)
            # Kept on the device: float(loss) at every step would wait for the GPU.
            total += loss.detach()
            bar.advance()
    learner.broadcast_statistics()
    # Weights are the same on all ranks: all of them stop here, and none waits for another.
    check_converged(learner.network.state_dict().values(), settings)
    return float(total) / steps


def _loss(
    learner: Learner, setup: Setup, batch: Batch, targets: Tensor | None, draws: torch.Generator
) -> Tensor:
    """Return the loss of this rank's shard of a batch."""
    task, pipeline, device = setup.task, setup.pipeline, setup.world.device
    own = setup.world.shard(batch.clean)
    view = pipeline.train_view(_taken(setup, own), draws)
    label = task.label[own].to(device)
    if targets is None and batch.rejected is None:
        return mean_loss(learner.logits(view), label)
    # Targets and losses in float32, also where the network computes in bfloat16.
    known = functional.one_hot(label, task.n_classes).float()
    target = known if targets is None else targets[own].to(device)
    if batch.rejected is not None:
        # Eq. cutmix, with the pseudo-label or the soft label in place of y_noisy.
        partner, soft = _partner(learner, setup, batch.rejected, targets, draws)
        view, target = pipeline.mix(view, target, partner, soft, draws)
    return mean_loss(learner.logits(view), target)


def _partner(
    learner: Learner, setup: Setup, rows: Tensor, targets: Tensor | None, draws: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return the rows to mix in, with their soft labels, or pseudo-labels where there are none."""
    own = setup.world.shard(rows)
    taken = _taken(setup, own)
    if targets is not None:
        return setup.pipeline.train_view(taken, draws), targets[own].to(setup.world.device)
    # Vectors are not augmented: a second view would be the same again.
    n_views = 2 if len(setup.task.inputs.shape) == 3 else 1
    views = [setup.pipeline.train_view(taken, draws) for _ in range(n_views)]
    with learner.precision():
        soft = pseudo_labels(learner.network, views, temperature=setup.settings.temperature)
    return views[0], soft.float()


def _taken(setup: Setup, rows: Tensor) -> Tensor:
    return setup.task.inputs.take(rows).to(setup.world.device, non_blocking=True)
