"""One epoch on soft labels: every row has a probability for each class, and rows are mixed."""

import torch
from torch import Tensor

from kspr._progress import Progress, ProgressMode
from kspr.models.network import seeded
from kspr.train.distributed import World
from kspr.train.learner import Batch, Learner, Pools, epoch_batches, soft_loss
from kspr.train.pipelines import InputPipeline
from kspr.train.randomness import generator_for, seed_for
from kspr.train.settings import TrainSettings
from kspr.train.task import Task, steps_per_epoch

__all__ = ["train_soft_epoch"]


def train_soft_epoch(
    learner: Learner,
    task: Task,
    rows: Tensor,
    targets: Tensor,
    pipeline: InputPipeline,
    settings: TrainSettings,
    world: World,
    place: tuple[int, int],
    *,
    n: int | None = None,
    title: str = "",
) -> float:
    """Train `learner` on the soft labels of `rows` for one epoch, and return its mean loss.

    Each batch is mixed with other rows of `rows`, with the probability of the settings. `targets`
    ``(all rows, classes)`` are probabilities. `n` is the number of rows that the number of steps is
    computed from; None for that of `rows`. `title` names the progress bar. `place` and ranks are as
    in `train_epoch`.
    """
    order = generator_for(settings.seed, "order", *place)
    draws = generator_for(settings.seed, "batch", *place, world.rank)
    steps = steps_per_epoch(len(rows) if n is None else n, settings.batch_size)
    total = torch.zeros((), device=world.device)
    learner.start_training()
    # Both pools are the same rows, each in an order of its own: every row has random partners.
    batches = epoch_batches(
        Pools(rows, rows), steps, settings.batch_size, settings.mix_probability, order
    )
    layers = seed_for(settings.seed, "layers", *place, world.rank)
    mode: ProgressMode = "auto" if world.rank == 0 else False
    title = title or f"epoch {place[1] + 1}"
    with seeded(layers, world.device), Progress(mode, title, steps) as bar:
        for batch in batches:
            loss = _loss(learner, task, batch, targets, pipeline, world, draws)
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
    targets: Tensor,
    pipeline: InputPipeline,
    world: World,
    draws: torch.Generator,
) -> Tensor:
    """Return the loss of this rank's shard of a batch."""

    def seen(rows: Tensor) -> tuple[Tensor, Tensor]:
        own = world.shard(rows)
        batch = task.inputs.take(own).to(world.device, non_blocking=True)
        return pipeline.train_view(batch, draws), targets[own].to(world.device)

    view, target = seen(batch.clean)
    if batch.rejected is not None:
        view, target = pipeline.mix(view, target, *seen(batch.rejected), draws)
    return soft_loss(learner.logits(view), target)
