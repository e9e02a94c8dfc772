"""Random numbers for batches: drawn where the generator lives, used where the batch lives.

A generator on the CPU gives the same numbers whatever the device of the batch.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["beta", "chance", "uniform", "whole"]


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
