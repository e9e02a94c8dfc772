"""Optional packages, and the weights and folders that models come from."""

import hashlib
import importlib
import importlib.metadata
from pathlib import Path
from typing import Any

from kspr.errors import InputError, MissingExtraError

__all__ = ["check_source", "load_weights", "local_state", "require", "version"]


def require(module: str, purpose: str, package: str) -> Any:
    """Import `module`, or say which pip command brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        # A package that is there but cannot be imported has its own story to tell.
        if error.name is not None and error.name.partition(".")[0] != module.partition(".")[0]:
            missing = error.name.partition(".")[0]
            raise MissingExtraError(f"{purpose} ({module})", missing) from error
        raise MissingExtraError(purpose, package) from error


def version(package: str) -> str | None:
    """Return the installed version, None without one."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def check_source(name: str, source: str) -> None:
    """Refuse a path that leads nowhere, which a hub would take for a name and look up."""
    if source.startswith(("/", ".", "~")) and not Path(source).is_dir():
        raise InputError(f"{name} cannot be loaded: there is no folder {source}.")


def local_state(path: Path) -> str | None:
    """Return a digest of names, sizes and dates of a local file or folder; None if it is neither.

    Weights are too large to be read for a comparison.
    """
    if not path.exists():
        return None
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    facts = [(str(p), p.stat().st_size, p.stat().st_mtime_ns) for p in files]
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def load_weights(path: Path) -> dict[str, Any]:
    """Return the tensors in a .safetensors or torch file, without ever running code from it."""
    if not path.is_file():
        raise InputError(f"The weights {path} are not there.")
    purpose = f"Reading {path.name}"
    try:
        if path.suffix == ".safetensors":
            loader = require("safetensors.torch", purpose, "safetensors")
            state = loader.load_file(path)
        else:
            torch = require("torch", purpose, "torch")
            state = torch.load(path, map_location="cpu", weights_only=True)
    except MissingExtraError:
        raise
    except Exception as error:  # each format has errors of its own; all mean the same here
        raise InputError(
            f"{path} is no file of weights alone, as torch.save(model.state_dict(), ...) writes "
            f"it: {str(error).strip().splitlines()[0] if str(error) else type(error).__name__}"
        ) from error
    return _tensors(state, path)


def _tensors(state: Any, path: Path) -> dict[str, Any]:
    for wrapper in ("state_dict", "model"):
        if isinstance(state, dict) and isinstance(state.get(wrapper), dict):
            state = state[wrapper]
    if not isinstance(state, dict) or not all(hasattr(v, "shape") for v in state.values()):
        raise InputError(f"{path} holds no state_dict: names and tensors are expected in it.")
    # DataParallel and DistributedDataParallel put this before every name.
    return {name.removeprefix("module."): tensor for name, tensor in state.items()}
