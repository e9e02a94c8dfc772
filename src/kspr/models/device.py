"""What the torch families share: devices, precision, images as tensors."""

from typing import Any

from kspr.errors import InputError

__all__ = ["pick_device"]


def pick_device(torch: Any, device: str) -> str:
    """Return `device`, or the best one here for ``auto``."""
    here = _devices(torch)
    if device == "auto":
        return here[0]
    plain = "cuda:0" if device == "cuda" else device
    if plain not in here:
        raise InputError(f"device {device!r} is not there. Choose from auto, {', '.join(here)}.")
    return device


def _devices(torch: Any) -> list[str]:
    here = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        here.append("mps")
    return [*here, "cpu"]
