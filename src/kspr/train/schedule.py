"""The optimiser and its learning rate."""

import math

import torch
from torch import nn

from kspr.errors import InputError

__all__ = ["cosine_rate", "make_optimizer"]


def cosine_rate(step: int, total: int, base: float, warmup: int = 0) -> float:
    """Return the learning rate of `step`, counted from 0, in a run of `total` steps.

    It rises in `warmup` equal steps to `base`, then falls along half a cosine to 0, which it would
    reach at `total`. A function of the step alone: a run that goes on needs no state of it.
    """
    if not 0 <= warmup <= total:
        raise InputError(f"warmup must lie between 0 and total={total}, got {warmup}.")
    if step < warmup:
        return base * (step + 1) / (warmup + 1)
    if step >= total:
        return 0.0
    return base * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (total - warmup)))


def make_optimizer(
    network: nn.Module, rate: float, momentum: float = 0.9, weight_decay: float = 5e-4
) -> torch.optim.SGD:
    """Return SGD with momentum on every parameter that learns.

    The decay holds for all of them, as in the paper and in the ResNets it builds on. Sparing biases
    and norms is a habit of very large batches, for which nothing speaks here.
    """
    learning = [p for p in network.parameters() if p.requires_grad]
    if not learning:
        raise InputError("network has no parameter that learns; all of them are frozen.")
    return torch.optim.SGD(learning, lr=rate, momentum=momentum, weight_decay=weight_decay)
