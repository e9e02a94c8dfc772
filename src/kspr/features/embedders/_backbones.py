"""What timm and torchvision models share: ``NAME@weights``, and images in a square."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kspr.errors import InputError
from kspr.features.embedders._torch import Pixels, Runner
from kspr.features.embedders.embedder import Embedder, Request
from kspr.models.device import pick_device
from kspr.models.weights import load_weights, local_state

__all__ = ["backbone", "fill", "identity", "split"]


def split(rest: str) -> tuple[str, Path | None]:
    """Return the model's name and the file of weights, if ``NAME@file`` gives one."""
    model, _, weights = rest.partition("@")
    return model, Path(weights) if weights else None


def identity(rest: str, image_size: int | None) -> dict[str, Any]:
    """Return the image size asked for, and the state of the weights' file."""
    _, weights = split(rest)
    return {"image_size": image_size, "origin": None if weights is None else local_state(weights)}


def fill(model: Any, path: Path, head: str | None) -> None:
    """Load the weights in `path` into `model`; those of its `head` may differ or be missing."""

    def in_head(key: str) -> bool:
        return head is not None and key.startswith(f"{head}.")

    weights = {key: value for key, value in load_weights(path).items() if not in_head(key)}
    try:
        missing, unknown = model.load_state_dict(weights, strict=False)
    except RuntimeError as error:
        lines = str(error).strip().splitlines()
        raise InputError(f"{path} does not fit the model: {lines[-1].strip()}") from error
    missing = [key for key in missing if not in_head(key)]
    if missing or len(unknown) == len(weights):
        raise InputError(
            f"{path} does not fit the model: {len(missing)} of its tensors are missing, such as "
            f"{(missing or ['?'])[0]}."
        )


def backbone(
    name: str,
    model: Any,
    torch: Any,
    request: Request,
    *,
    size: int,
    mean: Sequence[float],
    std: Sequence[float],
) -> Embedder:
    """Return an embedder of `model`, which maps a batch of images to a batch of rows."""
    runner = Runner(torch, pick_device(torch, request.device), request.half)
    pixels = Pixels(size, tuple(mean), tuple(std))
    model = model.to(runner.device).eval()

    def compute(prepared: list[np.ndarray]) -> np.ndarray:
        return runner.images(model, pixels.batch(torch, prepared))

    return Embedder(name, "image", compute, pixels.prepare, size)
