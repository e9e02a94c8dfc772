"""SimSiam: features from images alone, before any label is believed (Chen and He, 2021)."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kspr._progress import Progress, ProgressMode
from kspr.train._readout import Images, Labels
from kspr.train._simsiam_run import PretrainEpoch, Run
from kspr.train._simsiam_settings import SimSiamSettings
from kspr.train.backbones import Network

__all__ = ["PretrainEpoch", "PretrainResult", "SimSiamSettings", "pretrain"]

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
