"""One epoch of Alg. 3: supervised on the clean samples, or mixed with the rejected ones."""

import torch
from torch import Tensor

from kspr._progress import Progress, ProgressMode
from kspr.train._random import forked, generator_for, seed_for
from kspr.train.batches import Batch, Pools, epoch_batches
from kspr.train.distributed import World
from kspr.train.line import Line
from kspr.train.losses import pseudo_labels, soft_loss, supervised_loss
from kspr.train.media import Medium
from kspr.train.settings import TrainSettings
from kspr.train.task import Task

__all__ = ["train_epoch"]


def train_epoch(
    line: Line,
    task: Task,
    pools: Pools,
    medium: Medium,
    settings: TrainSettings,
    world: World,
    place: tuple[int, int],
) -> float:
    """Train `line` for one epoch and return its mean loss.

    `place` is the line's number and the epoch: all random numbers follow from it and the seed.
    Every rank goes through the same batches and takes its part of each.
    """
    order = generator_for(settings.seed, "order", *place)
    draws = generator_for(settings.seed, "batch", *place, world.rank)
    total, steps = torch.zeros((), device=world.device), task.steps(settings.batch_size)
    line.start_training()
    batches = epoch_batches(pools, steps, settings.batch_size, settings.mix_probability, order)
    layers = seed_for(settings.seed, "layers", *place, world.rank)
    mode: ProgressMode = "auto" if world.rank == 0 else False
    with forked(layers, world.device), Progress(mode, f"epoch {place[1] + 1}", steps) as bar:
        for batch in batches:
            loss = _loss(line, task, batch, medium, settings, world, draws)
            line.learn(loss)
            total += loss.detach()
            bar.advance()
    line.agree()
    return float(total) / steps


def _loss(
    line: Line,
    task: Task,
    batch: Batch,
    medium: Medium,
    settings: TrainSettings,
    world: World,
    draws: torch.Generator,
) -> Tensor:
    """Return the loss of one batch, of this rank's part of it."""
    own = world.part(batch.clean)
    label = task.label[own].to(world.device)
    view = medium.train_view(_taken(task, own, world), draws)
    if batch.rejected is None:
        return supervised_loss(line.logits(view), label)
    other = _taken(task, world.part(batch.rejected), world)
    views = [medium.train_view(other, draws) for _ in range(_n_views(task))]
    with line.precision():
        soft = pseudo_labels(line.network, views, temperature=settings.temperature)
    target = torch.nn.functional.one_hot(label, task.n_classes).float()
    mixed, target = medium.mix(view, target, views[0], soft.float(), draws)
    return soft_loss(line.logits(mixed), target)


def _taken(task: Task, rows: Tensor, world: World) -> Tensor:
    return task.inputs.take(rows).to(world.device, non_blocking=True)


def _n_views(task: Task) -> int:
    """Return how many views a pseudo-label is the mean of; vectors have only one."""
    return 2 if len(task.inputs.shape) == 3 else 1
