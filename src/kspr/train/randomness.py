"""Random numbers that depend on a seed and on where in the run they are drawn.

Nothing has to be remembered: a run that goes on after an interruption draws the same numbers.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

__all__ = [
    "beta",
    "chance",
    "deterministic",
    "forked",
    "generator_for",
    "seed_for",
    "uniform",
    "whole",
]

_STREAM = 0x747261696E
"""Keeps these numbers apart from those of a caller who used the same seed for the noise."""
_NAMES = ("split", "order", "batch", "layers", "network", "pretrain")
_PURPOSES = {name: k for k, name in enumerate(_NAMES)}


def seed_for(seed: int, purpose: str, *place: int) -> int:
    """Return a seed of its own for `purpose` at `place`, such as (line, epoch, rank)."""
    words = [_STREAM, seed, _PURPOSES[purpose], *place]
    return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0] >> 1)


def generator_for(seed: int, purpose: str, *place: int) -> torch.Generator:
    """Return a generator on the CPU for `purpose` at `place`."""
    return torch.Generator().manual_seed(seed_for(seed, purpose, *place))


@contextmanager
def forked(seed: int, device: torch.device) -> Iterator[None]:
    """Give layers that draw from torch's own generator, such as dropout, numbers of ours.

    The generator is put back afterwards: the caller's random numbers are not touched.
    """
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield


@contextmanager
def deterministic() -> Iterator[None]:
    """Refuse operations whose result may differ from run to run; put the old rule back."""
    before = torch.are_deterministic_algorithms_enabled()
    benchmark = torch.backends.cudnn.benchmark
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
        torch.backends.cudnn.benchmark = benchmark


def uniform(
    shape: Sequence[int], generator: torch.Generator, device: torch.device, low: float, high: float
) -> Tensor:
    """Return numbers from [low, high)."""
    draws = torch.rand(tuple(shape), generator=generator, device=generator.device)
    return (low + (high - low) * draws).to(device)


def chance(n: int, probability: float, generator: torch.Generator, device: torch.device) -> Tensor:
    """Return `n` booleans, each true with `probability`."""
    draws = torch.rand(n, generator=generator, device=generator.device)
    return (draws < probability).to(device)


def whole(below: Tensor, generator: torch.Generator) -> Tensor:
    """Return whole numbers from 0 up to, and without, each of `below`."""
    draws = torch.rand(below.shape, generator=generator, device=generator.device)
    # Rounding can lift the product to the bound itself.
    return (draws.to(below.device) * below).long().minimum(below.long() - 1)


def beta(n: int, alpha: float, generator: torch.Generator, device: torch.device) -> Tensor:
    """Return `n` numbers from Beta(alpha, alpha), in float32.

    torch.distributions takes no generator; its Gamma draws do, one level below.
    """
    # In double precision: for a small alpha both draws would often be zero otherwise.
    shape = torch.full((2, n), alpha, dtype=torch.float64, device=generator.device)
    draws: Tensor = torch._standard_gamma(shape, generator=generator)
    return (draws[0] / draws.sum(0)).float().to(device)
