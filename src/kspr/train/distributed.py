"""One process or several: who trains on which rows, and how they agree.

`Alone` is the answer for one process: nothing to share, nothing to wait for. Under ``torchrun``,
`Group` trains each rank on its part of every batch; features are gathered, and what rank 0 decides
is sent to the others.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Protocol, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from kspr.errors import InputError

__all__ = ["Alone", "Group", "World", "first_of", "pick_device", "the_world"]

_Result = TypeVar("_Result")
_PATIENCE = timedelta(hours=12)


class World(Protocol):
    """The processes that train together, seen from one of them."""

    rank: int
    size: int
    device: torch.device

    def wrap(self, network: nn.Module) -> nn.Module:
        """Return a module whose gradients are the mean over all ranks."""
        ...

    def part(self, rows: Tensor) -> Tensor:
        """Return this rank's rows; they are as many on every rank, or one fewer."""
        ...

    def whole(self, values: Tensor, n: int) -> Tensor:
        """Return the `n` rows whose parts, as `part` cut them, the ranks hold."""
        ...

    def agree(self, values: Tensor) -> Tensor:
        """Return rank 0's values, on every rank."""
        ...

    def wait(self) -> None:
        """Return when every rank has called this."""
        ...


class Alone:
    """One process."""

    rank, size = 0, 1

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def wrap(self, network: nn.Module) -> nn.Module:
        """Return `network`."""
        return network

    def part(self, rows: Tensor) -> Tensor:
        """Return `rows`."""
        return rows

    def whole(self, values: Tensor, n: int) -> Tensor:  # noqa: ARG002 - there is nobody else
        """Return `values`."""
        return values

    def agree(self, values: Tensor) -> Tensor:
        """Return `values`."""
        return values

    def wait(self) -> None:
        """Return at once."""


class Group:
    """Several processes, made by ``torchrun``."""

    def __init__(self, device: torch.device) -> None:
        self.rank, self.size, self.device = dist.get_rank(), dist.get_world_size(), device

    def wrap(self, network: nn.Module) -> nn.Module:
        """Return `network` with gradients that are averaged over the ranks."""
        if not any(parameter.requires_grad for parameter in network.parameters()):
            return network
        return DistributedDataParallel(network)

    def part(self, rows: Tensor) -> Tensor:
        """Return every `size`-th row, from `rank` on."""
        return rows[self.rank :: self.size]

    def whole(self, values: Tensor, n: int) -> Tensor:
        """Put the rows of all ranks back in order."""
        longest = -(-n // self.size)
        padded = values.new_zeros((longest, *values.shape[1:]))
        padded[: len(values)] = values
        parts = [torch.empty_like(padded) for _ in range(self.size)]
        dist.all_gather(parts, padded.contiguous())
        # Row k of rank r is row k * size + r of the whole.
        return torch.stack(parts, dim=1).flatten(0, 1)[:n]

    def agree(self, values: Tensor) -> Tensor:
        """Return rank 0's values."""
        sent = values.to(self.device).contiguous()
        dist.broadcast(sent, 0)
        return sent.to(values.device)

    def wait(self) -> None:
        """Return when every rank is here."""
        dist.barrier()


@contextmanager
def the_world(device: str) -> Iterator[World]:
    """Yield the group that ``torchrun`` started, or one process on its own.

    Inside another such block the same group is used.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield Alone(pick_device(device))
        return
    chosen = pick_device(device, int(os.environ.get("LOCAL_RANK", "0")))
    if dist.is_initialized():
        yield Group(chosen)
        return
    # The others wait while rank 0 embeds a large source or selects from it.
    dist.init_process_group("nccl" if chosen.type == "cuda" else "gloo", timeout=_PATIENCE)
    try:
        yield Group(chosen)
        # Whoever leaves first closes connections that another may still be reading from.
        dist.barrier()
    finally:
        dist.destroy_process_group()


def first_of(world: World, work: Callable[[], _Result]) -> _Result:
    """Do `work` on rank 0, then on the others, who find what rank 0 has cached."""
    if world.rank != 0:
        world.wait()
    result = work()
    if world.rank == 0:
        world.wait()
    return result


def pick_device(name: str, local_rank: int = 0) -> torch.device:
    """Return the device called `name`; ``"auto"`` is a GPU where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda":
        name = f"cuda:{local_rank}"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"device {name!r} cannot be used here: {reason}") from error
    return device
