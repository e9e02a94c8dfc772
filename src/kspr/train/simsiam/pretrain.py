"""`pretrain`: SimSiam learns features from images without labels (Chen and He, 2021)."""

import math
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
from kspr.train.inputs import Inputs
from kspr.train.randomness import seed_for
from kspr.train.run_folder import newest_checkpoint, write_checkpoint
from kspr.train.settings import TrainSettings
from kspr.train.simsiam.epoch import Labels, PretrainEpoch, Pretraining
from kspr.train.simsiam.heads import SimSiamSettings

__all__ = [
    "PretrainEpoch",
    "PretrainResult",
    "SimSiamSettings",
    "pretrain",
    "pretrain_network",
    "simsiam_settings",
]

_COLLAPSED = 0.1
"""Spread below which outputs count as collapsed; healthy runs stay near 1."""


@dataclass(frozen=True)
class PretrainResult:
    """The metrics of a pre-training; the network itself was changed in place."""

    epochs: tuple[PretrainEpoch, ...]
    """One entry per epoch."""

    @property
    def collapsed(self) -> bool:
        """Whether nearly all images had the same output in the last epoch."""
        return bool(self.epochs) and self.epochs[-1].spread < _COLLAPSED


def pretrain(
    network: Network,
    inputs: Inputs,
    settings: SimSiamSettings,
    *,
    seed: int,
    labels: Labels | None = None,
    on_epoch: Callable[[dict[str, Any]], None] | None = None,
    state: dict[str, Any] | None = None,
    progress: ProgressMode = "auto",
) -> PretrainResult:
    """Train the features of `network` on `inputs` without labels; its classifier does not change.

    If the outputs collapse to one point, a warning is given once.

    Parameters
    ----------
    network
        Trained in place, on the device of its weights.
    inputs
        Images by row number: ``take(index)`` returns (n, c, h, w), bytes or floats from 0 to 1.
    settings
        How to train.
    seed
        Seed of all random numbers.
    labels
        Used only to measure how often near neighbours share a label. Wrong labels lower that share,
        so it compares epochs and is no accuracy.
    on_epoch
        Called after each epoch with everything that the next one depends on, as tensors and plain
        numbers that ``torch.load(..., weights_only=True)`` can read.
    state
        Value that `on_epoch` got earlier: training continues from there. On a CPU the result is
        the same, bit for bit.
    progress
        Whether to draw a progress bar.
    """
    run = Pretraining(network, inputs, settings, seed, labels)
    if state is not None:
        run.load(state)
    warned = False
    left = settings.epochs - run.epoch
    with Progress(progress, "pre-training", left * run.steps) as bar:
        for _ in range(left):
            epoch = run.learn(bar.advance)
            if not math.isfinite(epoch.loss):
                raise InputError(
                    f"SimSiam diverged in epoch {epoch.epoch + 1}: its loss is {epoch.loss}. Train "
                    f"again with a smaller rate in [pretrain], {settings.rate / 10:g} for example."
                )
            if epoch.spread < _COLLAPSED and not warned:
                _warn_of_collapse(epoch)
                warned = True
            if on_epoch is not None:
                on_epoch(run.state())
    return PretrainResult(tuple(run.history))


def _warn_of_collapse(epoch: PretrainEpoch) -> None:
    warnings.warn(
        f"SimSiam collapsed in epoch {epoch.epoch + 1}: all images get nearly the same output "
        f"(spread {epoch.spread:.2g}, where 1 is healthy). Such features cannot be used for a "
        "selection. Lower the rate, enlarge the batch, or set pretrain_epochs to 0.",
        stacklevel=3,
    )


def simsiam_settings(settings: TrainSettings) -> SimSiamSettings:
    """Return the settings of the pre-training; raise `InputError` for an unknown parameter."""
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
    """Pre-train `network` on rank 0 and broadcast its weights.

    Checkpoints are written to `folder`; an interrupted pre-training continues from them.
    """
    network.to(world.device)
    # The other ranks wait for the broadcast below.
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
        # state_dict returns the tensors themselves, so the copy changes the network.
        for value in network.state_dict().values():
            value.copy_(world.broadcast(value))
