"""SimSiam before the cycle: once, on rank 0, resumable."""

from pathlib import Path
from typing import Any

import torch

from kspr.errors import InputError
from kspr.train._random import seed_for
from kspr.train.backbones import Network
from kspr.train.checkpoints import newest_checkpoint, write_checkpoint
from kspr.train.distributed import World
from kspr.train.settings import TrainSettings
from kspr.train.simsiam import SimSiamSettings, pretrain
from kspr.train.task import Task

__all__ = ["pretrain_network", "simsiam_settings"]


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
