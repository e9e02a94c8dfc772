"""Weights from files, folders and hubs, read without running code from them.

This module imports no torch: an embedder's identity is computed without loading anything heavy.
"""

import hashlib
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kspr._packages import require
from kspr.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from torch import Tensor, nn

    _State = dict[str, Tensor]


def from_pretrained(name: str, auto: str, source: str, **options: Any) -> Any:
    """Load the hub name or local folder `source` with the class `auto` of transformers.

    `name` is the user's name for the model, for messages. Code in `source` is never run.
    """
    transformers = require("transformers", f"The model {name}", "transformers")
    check_source(name, source)
    try:
        with quiet():
            loader = getattr(transformers, auto)
            return loader.from_pretrained(source, trust_remote_code=False, **options)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(
            f"{name} cannot be loaded by transformers' {auto}: {first_line(error)}"
        ) from error


@contextmanager
def quiet() -> Iterator[None]:
    """Switch off the loading bars and notices of transformers while the block runs."""
    log = importlib.import_module("transformers.utils.logging")
    # Settings of the whole process: the caller's are put back at the end.
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or the name of its type if it has none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def check_source(name: str, source: str) -> None:
    """Raise `InputError` if `source` looks like a path but is no folder."""
    # A hub would take such a path for a model's name and search for it online.
    if source.startswith(("/", ".", "~")) and not Path(source).is_dir():
        raise InputError(f"{name} cannot be loaded: there is no folder {source}.")


def local_state(source: str) -> str | None:
    """Return a digest of names, sizes and dates of a local file or folder; None for others."""
    path = Path(source)
    # Not of the contents: files of weights are too large to be read for a comparison.
    if not path.exists():
        return None
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    facts = [(str(p), p.stat().st_size, p.stat().st_mtime_ns) for p in files]
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def load_weights(path: Path) -> dict[str, Any]:
    """Return the tensors in a .safetensors or torch file by name; code in it is never run."""
    if not path.is_file():
        raise InputError(f"The weights {path} are not there.")
    purpose = f"Reading {path.name}"
    try:
        if path.suffix == ".safetensors":
            loader = require("safetensors.torch", purpose, "safetensors")
            state = loader.load_file(path)
        else:
            torch = require("torch", purpose, "torch")
            # weights_only: a pickle could run any code.
            state = torch.load(path, map_location="cpu", weights_only=True)
    # Not the file's fault: this message names the package to install.
    except MissingExtraError:
        raise
    except Exception as error:  # each format has errors of its own; all mean the same here
        raise InputError(
            f"{path} is not a file of weights as torch.save(model.state_dict(), ...) writes them: "
            f"{first_line(error)}"
        ) from error
    return _tensors(state, path)


def _tensors(state: Any, path: Path) -> dict[str, Any]:
    # Training scripts often store the weights under one of these keys.
    for wrapper in ("state_dict", "model"):
        if isinstance(state, dict) and isinstance(state.get(wrapper), dict):
            state = state[wrapper]
    if not isinstance(state, dict) or not all(hasattr(v, "shape") for v in state.values()):
        raise InputError(f"{path} holds no state_dict: names and tensors are expected in it.")
    # DataParallel and DistributedDataParallel put this before every name.
    return {name.removeprefix("module."): tensor for name, tensor in state.items()}


def fill(module: "nn.Module", path: str | Path, *, head: str | None, spare: bool = False) -> None:
    """Load the weights in `path` into `module`.

    The layer called `head` keeps its own weights if the file has none for it, or has weights for
    another number of classes. With `spare`, the file may have tensors that `module` has no place
    for.
    """
    _load(module, load_weights(Path(path)), head, path, spare=spare)


def fill_body(network: "nn.Module", path: str | Path, published_heads: tuple[str, ...]) -> None:
    """Load weights that have this package's names or the published names of the architecture.

    Published names lack the prefix ``body.``; the classifier is one of `published_heads`.
    """
    state = load_weights(Path(path))
    if not any(name.startswith("body.") for name in state):
        state = {_our_name(name, published_heads): tensor for name, tensor in state.items()}
    _load(network, state, "head", path)


def _our_name(name: str, published_heads: tuple[str, ...]) -> str:
    first, _, rest = name.partition(".")
    return f"head.{rest}" if first in published_heads else f"body.{name}"


def _load(
    module: "nn.Module",
    state: "_State",
    head: str | None,
    path: str | Path,
    *,
    spare: bool = False,
) -> None:
    # Checked by hand: torch's own message lists every tensor.
    needed: _State = module.state_dict()
    ours = {name: t for name, t in needed.items() if name.startswith(f"{head}.")}
    if any(name not in state or state[name].shape != t.shape for name, t in ours.items()):
        state = {n: t for n, t in state.items() if not n.startswith(f"{head}.")} | ours
    # Files from before torch 0.4.1 do not have these counters.
    counters = (name for name in needed if name.endswith("num_batches_tracked"))
    state = {name: needed[name] for name in counters} | state
    faults = []
    if missing := [name for name in needed if name not in state]:
        faults.append(f"{len(missing)} tensors are missing, such as {missing[0]}")
    if (unknown := [name for name in state if name not in needed]) and not spare:
        faults.append(f"{len(unknown)} have no place, such as {unknown[0]}")
    if other := [n for n in needed if n in state and needed[n].shape != state[n].shape]:
        there, here = tuple(state[other[0]].shape), tuple(needed[other[0]].shape)
        faults.append(
            f"{len(other)} have another shape, such as {other[0]} with {there} for {here}"
        )
    if faults:
        raise InputError(
            f"The weights {path} are of another architecture: {'; '.join(faults)}. Choose the "
            "network that they were made for."
        )
    module.load_state_dict({name: state[name] for name in needed})
