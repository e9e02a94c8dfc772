"""Random numbers that depend on a seed and on the position in the run, not on earlier draws.

No state is stored: a run that is resumed after an interruption draws the same numbers.
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
    "generator_for",
    "integers_below",
    "seed_for",
    "uniform",
]

_STREAM = 0x747261696E
"""Separates these numbers from those of a caller who uses the same seed, for noise for example."""
_NAMES = ("split", "order", "batch", "layers", "network", "pretrain", "patches")
_PURPOSES = {name: k for k, name in enumerate(_NAMES)}


def seed_for(seed: int, purpose: str, *place: int) -> int:
    """Return the seed for `purpose` at `place`, such as (learner, epoch, rank)."""
    # SeedSequence mixes all words, so neighbouring places have unrelated streams.
    words = [_STREAM, seed, _PURPOSES[purpose], *place]
    return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0] >> 1)


def generator_for(seed: int, purpose: str, *place: int) -> torch.Generator:
    """Return a generator on the CPU for `purpose` at `place`."""
    # On the CPU whatever the device: GPUs would draw other numbers.
    return torch.Generator().manual_seed(seed_for(seed, purpose, *place))


@contextmanager
def deterministic() -> Iterator[None]:
    """Let torch refuse operations whose result may differ between runs, while the block runs."""
    before = torch.are_deterministic_algorithms_enabled()
    benchmark = torch.backends.cudnn.benchmark
    torch.use_deterministic_algorithms(True)
    # Benchmarking picks the fastest kernel, which may differ from run to run.
    torch.backends.cudnn.benchmark = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
        torch.backends.cudnn.benchmark = benchmark


def uniform(
    shape: Sequence[int], generator: torch.Generator, device: torch.device, low: float, high: float
) -> Tensor:
    """Return random numbers from [low, high), in the given shape."""
    draws = torch.rand(tuple(shape), generator=generator, device=generator.device)
    return (low + (high - low) * draws).to(device)


def chance(n: int, probability: float, generator: torch.Generator, device: torch.device) -> Tensor:
    """Return `n` random booleans, each true with `probability`."""
    draws = torch.rand(n, generator=generator, device=generator.device)
    return (draws < probability).to(device)


def integers_below(below: Tensor, generator: torch.Generator) -> Tensor:
    """Return a random integer from 0 to ``b - 1`` for each ``b`` in `below`."""
    draws = torch.rand(below.shape, generator=generator, device=generator.device)
    # Rounding can lift the product to the bound itself.
    return (draws.to(below.device) * below).long().minimum(below.long() - 1)


def beta(n: int, alpha: float, generator: torch.Generator, device: torch.device) -> Tensor:
    """Return `n` random numbers from Beta(alpha, alpha), in float32."""
    # torch.distributions takes no generator, so the two Gamma draws are made here.
    # In double precision: for a small alpha both draws would often be zero otherwise.
    shape = torch.full((2, n), alpha, dtype=torch.float64, device=generator.device)
    draws: Tensor = torch._standard_gamma(shape, generator=generator)
    return (draws[0] / draws.sum(0)).float().to(device)
