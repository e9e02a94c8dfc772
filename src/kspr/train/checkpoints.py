"""Checkpoints: whole or not there, and read without running anything that is in them."""

import pickle
from pathlib import Path
from typing import Any

import torch

from kspr._files import staged
from kspr.errors import InputError

__all__ = ["newest_checkpoint", "read_tensors", "write_checkpoint", "write_tensors"]

_FORMAT = 1
_KEPT = 2
"""Checkpoints that stay: the newest, and the one before it."""


def write_checkpoint(folder: Path, epoch: int, content: dict[str, Any]) -> None:
    """Write `content` as the checkpoint after `epoch`, and remove old ones.

    Each has a name of its own: at any moment one is whole, whenever the process is killed.
    """
    write_tensors(folder / f"{epoch:06d}.pt", content)
    for old in _found(folder)[:-_KEPT]:
        old.unlink(missing_ok=True)


def newest_checkpoint(folder: Path, signature: dict[str, Any]) -> dict[str, Any] | None:
    """Return the newest checkpoint in `folder`, None if there is none.

    Raise `InputError` if it belongs to another run, as its `signature` tells.
    """
    found = _found(folder)
    if not found:
        return None
    content = read_tensors(found[-1])
    _check_same(content.get("signature", {}), signature, found[-1])
    return content


def write_tensors(path: Path, content: dict[str, Any]) -> None:
    """Write tensors, numbers and text to `path`, whole or not at all."""
    with staged(path) as staging:
        torch.save({"format": _FORMAT, **content}, staging)


def read_tensors(path: Path) -> dict[str, Any]:
    """Read what `write_tensors` wrote; anything but tensors, numbers and text is refused."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, OSError, pickle.UnpicklingError, ValueError) as error:
        raise InputError(
            f"{path} cannot be read as a file of kspr: it is damaged, or holds more than tensors, "
            "numbers and text."
        ) from error
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise InputError(f"{path} is no file of this version of kspr.")
    return content


def _found(folder: Path) -> list[Path]:
    """Return the checkpoints, oldest first; what a killed process left half-written is hidden."""
    return sorted(path for path in folder.glob("*.pt") if not path.name.startswith("."))


def _check_same(found: dict[str, Any], wanted: dict[str, Any], path: Path) -> None:
    different = [name for name in wanted if found.get(name) != wanted[name]]
    if different:
        name = different[0]
        raise InputError(
            f"{path} is of another run: its {name} is {_short(found.get(name))}, not "
            f"{_short(wanted[name])}. Resume with the same data and settings, or choose another "
            "folder."
        )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
