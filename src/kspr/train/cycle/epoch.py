"""One epoch of training: its batches, its losses, and the pseudo-labels of rejected samples."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from kspr._progress import Progress, ProgressMode
from kspr.errors import InputError
from kspr.models.network import evaluating, seeded
from kspr.train.cycle.learner import Learner
from kspr.train.cycle.task import Task
from kspr.train.distributed import World
from kspr.train.pipelines import InputPipeline
from kspr.train.randomness import generator_for, seed_for
from kspr.train.settings import TrainSettings

__all__ = [
    "Batch",
    "Pools",
    "epoch_batches",
    "pseudo_labels",
    "soft_loss",
    "supervised_loss",
    "train_epoch",
]


class Pools(NamedTuple):
    """Row numbers that the batches of an epoch are drawn from."""

    clean: Tensor
    """Samples whose given labels are used."""
    rejected: Tensor
    """Samples that are mixed in with pseudo-labels; may be empty."""


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


def supervised_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the mean cross-entropy of clean samples (Eq. loss-supervised).

    The caller chooses the clean rows (the indicator in that equation). Without a row, the loss and
    its gradient are 0.
    """
    # cross_entropy gives nan for the mean over no rows.
    if not len(labels):
        return logits.sum()
    return functional.cross_entropy(logits, labels)


def soft_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy with soft targets (Eq. loss-cutmix); 0 without a row."""
    if targets.shape != logits.shape:
        raise InputError(
            f"targets must have a probability for each logit: logits have shape "
            f"{tuple(logits.shape)}, targets {tuple(targets.shape)}."
        )
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
    if not views:
        raise InputError("views must hold at least one batch, got none.")
    if not temperature > 0:
        raise InputError(
            f"temperature must be positive, got {temperature}. 1 leaves probabilities as they are."
        )
    with evaluating(network):
        logits = torch.stack([network(view).logits.float() for view in views])
        # Logarithms throughout: a class at 1e-30 must not turn into 0 ** (1 / temperature).
        mean = logits.log_softmax(2).logsumexp(0)
        return (mean / temperature).softmax(1)


def train_epoch(
    learner: Learner,
    task: Task,
    pools: Pools,
    pipeline: InputPipeline,
    settings: TrainSettings,
    world: World,
    place: tuple[int, int],
) -> float:
    """Train `learner` for one epoch and return its mean loss.

    `place` is the number of the learner and of the epoch: all random numbers follow from it and
    from the seed. Every rank goes through the same batches and trains on its shard of each.
    """
    # The order is the same on all ranks, augmentation and mixing are not.
    order = generator_for(settings.seed, "order", *place)
    draws = generator_for(settings.seed, "batch", *place, world.rank)
    total, steps = torch.zeros((), device=world.device), task.steps(settings.batch_size)
    learner.start_training()
    batches = epoch_batches(pools, steps, settings.batch_size, settings.mix_probability, order)
    layers = seed_for(settings.seed, "layers", *place, world.rank)
    # One bar for all ranks.
    mode: ProgressMode = "auto" if world.rank == 0 else False
    with seeded(layers, world.device), Progress(mode, f"epoch {place[1] + 1}", steps) as bar:
        for batch in batches:
            # Alg. 3, lines 6 and 8; features (line 7) are computed after the epoch, in one pass.
            loss = _loss(learner, task, batch, pipeline, settings, world, draws)
            learner.learn(loss)
            # Kept on the device: float(loss) at every step would wait for the GPU.
            total += loss.detach()
            bar.advance()
    learner.broadcast_statistics()
    return float(total) / steps


def _loss(
    learner: Learner,
    task: Task,
    batch: Batch,
    pipeline: InputPipeline,
    settings: TrainSettings,
    world: World,
    draws: torch.Generator,
) -> Tensor:
    """Return the loss of this rank's shard of a batch."""
    own = world.shard(batch.clean)
    label = task.label[own].to(world.device)
    view = pipeline.train_view(_taken(task, own, world), draws)
    if batch.rejected is None:
        return supervised_loss(learner.logits(view), label)
    other = _taken(task, world.shard(batch.rejected), world)
    # Vectors are not augmented: a second view would be the same again.
    views = [pipeline.train_view(other, draws) for _ in range(_n_views(task))]
    with learner.precision():
        soft = pseudo_labels(learner.network, views, temperature=settings.temperature)
    # Pseudo-labels are computed in the learner's precision, targets and losses in float32.
    target = torch.nn.functional.one_hot(label, task.n_classes).float()
    # Eq. cutmix, with the pseudo-label in place of y_noisy.
    mixed, target = pipeline.mix(view, target, views[0], soft.float(), draws)
    return soft_loss(learner.logits(mixed), target)


def _taken(task: Task, rows: Tensor, world: World) -> Tensor:
    return task.inputs.take(rows).to(world.device, non_blocking=True)


def _n_views(task: Task) -> int:
    """Return how many views a pseudo-label is the mean of: one for vectors, two for images."""
    return 2 if len(task.inputs.shape) == 3 else 1
