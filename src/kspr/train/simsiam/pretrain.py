"""SimSiam: features from images alone, before any label is believed (Chen and He, 2021)."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from kspr._progress import Progress, ProgressMode
from kspr.errors import InputError
from kspr.models.network import Network
from kspr.train.cycle.task import Task
from kspr.train.distributed import World
from kspr.train.randomness import seed_for
from kspr.train.run_folder import newest_checkpoint, write_checkpoint
from kspr.train.settings import TrainSettings
from kspr.train.simsiam.epoch import PretrainEpoch, Run
from kspr.train.simsiam.heads import SimSiamSettings
from kspr.train.simsiam.readout import Images, Labels

__all__ = [
    "PretrainEpoch",
    "PretrainResult",
    "SimSiamSettings",
    "pretrain",
    "pretrain_network",
    "simsiam_settings",
]

_COLLAPSED = 0.1
"""A spread below this: outputs are nearly one point. Healthy runs stay near 1."""


@dataclass(frozen=True)
class PretrainResult:
    """How it went; the network itself has learned in place."""

    epochs: tuple[PretrainEpoch, ...]

    @property
    def collapsed(self) -> bool:
        """Whether the last epoch gave all images nearly the same output."""
        return bool(self.epochs) and self.epochs[-1].spread < _COLLAPSED


def pretrain(
    network: Network,
    inputs: Images,
    settings: SimSiamSettings,
    *,
    seed: int,
    labels: Labels | None = None,
    on_epoch: Callable[[dict[str, Any]], None] | None = None,
    state: dict[str, Any] | None = None,
    progress: ProgressMode = "auto",
) -> PretrainResult:
    """Teach `network` features of `inputs` without labels; its classifier is left alone.

    `inputs` has a length, and ``take(index)`` gives images (n, c, h, w), as bytes or as floats from
    0 to 1. It learns where the network's weights are. `labels` are only read out: how often near
    neighbours among the features share one. Wrong labels lower that figure and change nothing else,
    so it serves to compare epochs; it is no accuracy.

    After each epoch `on_epoch` gets everything that the next one depends on: tensors and plain
    numbers, which ``torch.load(..., weights_only=True)`` reads back. Passed as `state`, with the
    same other arguments, it goes on, on a CPU to the same bits.

    Outputs that become one point are answered with a warning, once.
    """
    run = Run(network, inputs, settings, seed, labels)
    if state is not None:
        run.load(state)
    warned = False
    left = settings.epochs - run.epoch
    with Progress(progress, "pre-training", left * run.steps) as bar:
        for _ in range(left):
            epoch = run.learn(bar.advance)
            if epoch.spread < _COLLAPSED and not warned:
                _warn_of_collapse(epoch)
                warned = True
            if on_epoch is not None:
                on_epoch(run.state())
    return PretrainResult(tuple(run.history))


def _warn_of_collapse(epoch: PretrainEpoch) -> None:
    warnings.warn(
        f"SimSiam collapsed in epoch {epoch.epoch + 1}: all images get nearly the same output "
        f"(spread {epoch.spread:.2g}, where 1 is healthy). Its features are of no use to a "
        "selection. Lower the rate, enlarge the batch, or go without pre-training.",
        stacklevel=3,
    )


def simsiam_settings(settings: TrainSettings) -> SimSiamSettings:
    """Return the settings of the pre-training; an unknown parameter is named."""
    try:
        return SimSiamSettings(epochs=settings.pretrain_epochs, **settings.pretrain)
    except TypeError as error:
        raise InputError(
            f"pretrain holds a parameter that SimSiam does not have: {error}."
        ) from error


def pretrain_network(
    network: Network,
    task: Task,
    settings: TrainSettings,
    world: World,
    folder: Path | None,
    signature: dict[str, Any],
) -> None:
    """Teach `network` features without labels; all ranks end up with rank 0's weights.

    Checkpoints go to `folder`, and a pre-training that was interrupted goes on from them.
    """
    network.to(world.device)
    if world.rank == 0:
        stored = None if folder is None else newest_checkpoint(folder, signature)
        done = 0 if stored is None else int(stored["epoch"])

        def keep(state: dict[str, Any]) -> None:
            nonlocal done
            done += 1
            if folder is not None:
                content = {"signature": signature, "epoch": done, "state": state}
                write_checkpoint(folder, done, content)

        pretrain(
            network,
            task.inputs,
            simsiam_settings(settings),
            seed=seed_for(settings.seed, "pretrain"),
            labels=task.label,
            on_epoch=keep,
            state=None if stored is None else stored["state"],
        )
    with torch.no_grad():
        for value in network.state_dict().values():
            value.copy_(world.agree(value))
