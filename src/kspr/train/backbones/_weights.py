"""Weights from a local file: all of them fit, or one sentence says what does not."""

from pathlib import Path

from torch import Tensor, nn

from kspr.data.embedders._packages import load_weights
from kspr.errors import InputError

__all__ = ["fill", "fill_body"]

State = dict[str, Tensor]


def fill(module: nn.Module, path: str | Path, *, head: str | None) -> None:
    """Load the weights in `path` into `module`.

    The layer called `head` keeps its own where the file's has another number of classes, or none.
    """
    _load(module, load_weights(Path(path)), head, path)


def fill_body(network: nn.Module, path: str | Path, published_heads: tuple[str, ...]) -> None:
    """Load weights with our names, or with those under which the architecture was published.

    Published are the body's names without ``body.``, and a classifier among `published_heads`.
    """
    state = load_weights(Path(path))
    if not any(name.startswith("body.") for name in state):
        state = {_own_name(name, published_heads): tensor for name, tensor in state.items()}
    _load(network, state, "head", path)


def _own_name(name: str, published_heads: tuple[str, ...]) -> str:
    first, _, rest = name.partition(".")
    return f"head.{rest}" if first in published_heads else f"body.{name}"


def _load(module: nn.Module, state: State, head: str | None, path: str | Path) -> None:
    own: State = module.state_dict()
    if head is not None and not _same_shapes(own, state, head):
        state = {name: t for name, t in state.items() if not name.startswith(f"{head}.")}
        state |= {name: t for name, t in own.items() if name.startswith(f"{head}.")}
    # Files from before torch 0.4.1 do not have these counters.
    state |= {n: t for n, t in own.items() if n.endswith("num_batches_tracked") and n not in state}
    faults = _faults(own, state)
    if faults:
        raise InputError(
            f"The weights {path} are of another architecture: {'; '.join(faults)}. Choose the "
            "network that they were made for."
        )
    module.load_state_dict(state)


def _same_shapes(own: State, state: State, head: str) -> bool:
    return all(
        name in state and state[name].shape == tensor.shape
        for name, tensor in own.items()
        if name.startswith(f"{head}.")
    )


def _faults(own: State, state: State) -> list[str]:
    missing = [name for name in own if name not in state]
    unknown = [name for name in state if name not in own]
    other = [name for name in own if name in state and own[name].shape != state[name].shape]
    faults = []
    if missing:
        faults.append(f"{len(missing)} tensors are missing, such as {missing[0]}")
    if unknown:
        faults.append(f"{len(unknown)} have no place, such as {unknown[0]}")
    if other:
        there, here = tuple(state[other[0]].shape), tuple(own[other[0]].shape)
        faults.append(
            f"{len(other)} have another shape, such as {other[0]} with {there} for {here}"
        )
    return faults
