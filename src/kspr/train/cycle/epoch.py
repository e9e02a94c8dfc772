"""Which rows each step of an epoch sees."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from kspr._progress import Progress, ProgressMode
from kspr.errors import InputError
from kspr.models.network import evaluating
from kspr.train.cycle.batches import Batch, Pools, epoch_batches
from kspr.train.cycle.learner import Line
from kspr.train.cycle.task import Task
from kspr.train.distributed import World
from kspr.train.pipelines import Medium
from kspr.train.randomness import forked, generator_for, seed_for
from kspr.train.settings import TrainSettings

__all__ = [
    "pseudo_labels",
    "soft_loss",
    "supervised_loss",
    "train_epoch",
]


def supervised_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the mean cross-entropy of clean samples (Eq. loss-supervised).

    The indicator in that equation is the caller's choice of rows. Without a row it is 0, with a
    gradient of 0: a batch in which nothing is clean teaches nothing.
    """
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
    """Return (n, classes) probabilities for samples whose labels are not believed.

    The mean over `views` (one batch each, of the same samples) of what `network` says, raised to
    ``1 / temperature`` and made to sum to 1 again. One view at temperature 1 is the softmax. The
    network looks in evaluation mode, gets its mode back, and no gradient passes.

    The paper says that rejected samples serve "as unlabeled data" and mixes their label
    ``y_noisy`` in, but not where that comes from: from the model or the EMA model (pass either),
    hard or soft, sharpened or not (MixMatch: two views, temperature 0.5), and in which mode.
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
