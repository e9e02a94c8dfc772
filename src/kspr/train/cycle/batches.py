"""Which rows each step of an epoch sees."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = [
    "Batch",
    "Pools",
    "epoch_batches",
    "steps_per_epoch",
]


class Pools(NamedTuple):
    """Row numbers that an epoch draws from."""

    clean: Tensor
    """Samples whose labels are used."""
    rejected: Tensor
    """Samples that are mixed in with pseudo-labels; may be empty."""


class Batch(NamedTuple):
    """One step's rows."""

    clean: Tensor
    rejected: Tensor | None
    """As many rows as `clean`, to be mixed with them; None for a supervised step."""


def steps_per_epoch(n: int, batch_size: int) -> int:
    """Return how many steps an epoch over `n` samples has.

    It does not depend on how many of them are clean: the learning rate's course is known from
    the start, and a small clean set is seen more often rather than less trained on.
    """
    return max(1, n // batch_size)


def epoch_batches(
    pools: Pools, n_steps: int, batch_size: int, probability: float, generator: torch.Generator
) -> Iterator[Batch]:
    """Yield `n_steps` batches; each is mixed with rejected samples with `probability`."""
    size = min(batch_size, len(pools.clean))
    clean = torch.split(_shuffled(pools.clean, n_steps * size, generator), size)
    mixed = torch.rand(n_steps, generator=generator) < probability
    if len(pools.rejected) == 0 or not mixed.any():
        yield from (Batch(rows, None) for rows in clean)
        return
    rejected = torch.split(_shuffled(pools.rejected, n_steps * size, generator), size)
    for k in range(n_steps):
        yield Batch(clean[k], rejected[k] if mixed[k] else None)


def _shuffled(rows: Tensor, n: int, generator: torch.Generator) -> Tensor:
    """Return `n` of the rows: all of them in random order, again and again."""
    rounds = -(-n // len(rows))
    orders = [torch.randperm(len(rows), generator=generator) for _ in range(rounds)]
    return rows[torch.cat(orders)[:n]]
