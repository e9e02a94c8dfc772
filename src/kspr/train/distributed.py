"""Training in one process or several: which rows a process trains on, and how values are shared.

`World` is one process alone. Under ``torchrun``, `Group` trains each process (rank) on its shard of
every batch, gathers features from all ranks, and broadcasts the decisions of rank 0.
"""

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from kspr.models.device import pick_device

__all__ = ["Group", "World", "rank_zero_first", "the_world", "training_device"]

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
