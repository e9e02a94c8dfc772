"""The processes that train together, and their random numbers.

`World` is one process alone. Under ``torchrun``, `Group` trains each process (rank) on its shard of
every batch, gathers features from all ranks, and broadcasts the decisions of rank 0. Random numbers
follow from a seed and the place in the run, not from earlier draws: no state is stored, and a run
that is resumed draws the same numbers.
"""

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from kspr.models.device import pick_device

_Result = TypeVar("_Result")
_PATIENCE = timedelta(hours=12)
"""Time limit of a collective call: other ranks wait while rank 0 embeds or selects."""


class World:
    """The processes that train together, seen from one of them; here: one process alone."""

    rank, size = 0, 1

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def wrap(self, network: nn.Module) -> nn.Module:
        """Return a module whose gradients are the mean over all ranks."""
        return network

    def shard(self, rows: Tensor) -> Tensor:
        """Return this rank's share of `rows`; the numbers of rows differ by at most one."""
        return rows

    def all_gather(self, values: Tensor, n: int) -> Tensor:  # noqa: ARG002 - one rank has all rows
        """Return all `n` rows in their order; `values` are those of this rank's shard."""
        return values

    def broadcast(self, values: Tensor) -> Tensor:
        """Return the values of rank 0 on every rank."""
        return values

    def barrier(self) -> None:
        """Wait until every rank has called this."""


class Group(World):
    """Several processes, started by ``torchrun``."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def wrap(self, network: nn.Module) -> nn.Module:
        """Return `network` with gradients that are averaged over the ranks."""
        # DistributedDataParallel refuses a module that has nothing to train.
        if not any(parameter.requires_grad for parameter in network.parameters()):
            return network
        return DistributedDataParallel(network)

    def shard(self, rows: Tensor) -> Tensor:
        """Return every `size`-th row, starting with row `rank`."""
        return rows[self.rank :: self.size]

    def all_gather(self, values: Tensor, n: int) -> Tensor:
        """Return the rows of all ranks in their original order."""
        longest = -(-n // self.size)
        # Ranks must send tensors of one shape.
        padded = values.new_zeros((longest, *values.shape[1:]))
        padded[: len(values)] = values
        parts = [torch.empty_like(padded) for _ in range(self.size)]
        dist.all_gather(parts, padded.contiguous())
        # Row k of rank r is row k * size + r of all rows.
        return torch.stack(parts, dim=1).flatten(0, 1)[:n]

    def broadcast(self, values: Tensor) -> Tensor:
        """Return the values of rank 0."""
        # nccl sends tensors on GPUs only, and of contiguous memory.
        sent = values.to(self.device).contiguous()
        dist.broadcast(sent, 0)
        return sent.to(values.device)

    def barrier(self) -> None:
        """Wait until every rank has called this."""
        dist.barrier()


@contextmanager
def the_world(device: str) -> Iterator[World]:
    """Yield the group of processes that ``torchrun`` started, or one process alone.

    A block inside another uses the group of the outer one.
    """
    # torchrun sets WORLD_SIZE and LOCAL_RANK.
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield World(training_device(device))
        return
    chosen = training_device(device, int(os.environ.get("LOCAL_RANK", "0")))
    # Made by an outer block, which will also close it.
    if dist.is_initialized():
        yield Group(chosen)
        return
    # The defaults of its functions are the group that exists when it is imported, which
    # DistributedDataParallel does: they would hold the group, and its threads, to the end.
    import torch.distributed.nn.functional  # noqa: F401 - for its effect

    dist.init_process_group("nccl" if chosen.type == "cuda" else "gloo", timeout=_PATIENCE)
    try:
        yield Group(chosen)
        # A rank that leaves early closes connections from which another may still read.
        dist.barrier()
    finally:
        dist.destroy_process_group()
        # What still holds the group refers to itself. A thread of it that asks for Python while
        # that is closing down is an abort, and torchrun then stops all other ranks.
        gc.collect()


def rank_zero_first(world: World, work: Callable[[], _Result]) -> _Result:
    """Do `work` on rank 0, then on the others, which use what rank 0 has put into a cache."""
    if world.rank != 0:
        world.barrier()
    result = work()
    if world.rank == 0:
        world.barrier()
    return result


def training_device(name: str, local_rank: int = 0) -> torch.device:
    """Return the device called `name` for training; ``"auto"`` is a GPU if there is one."""
    # Apple's mps is left to those who name it: it has no float64, and was not tested here.
    return pick_device(name, local_rank=local_rank, auto=("cuda", "cpu"))


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
