"""Random numbers that depend on a seed and on where in the run they are drawn.

Nothing has to be remembered: a run that goes on after an interruption draws the same numbers.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

__all__ = ["forked", "generator_for", "seed_for"]

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
