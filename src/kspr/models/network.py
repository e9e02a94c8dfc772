"""`Network`: features and logits in one pass; and the request to build one."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from kspr.errors import InputError

__all__ = [
    "BodyNetwork",
    "Network",
    "NetworkRequest",
    "Outputs",
    "check_shape",
    "evaluating",
    "image_channels",
    "seeded",
]


class Outputs(NamedTuple):
    """Result of a forward pass, one row per sample."""

    features: Tensor
    """Shape (n, d)."""
    logits: Tensor
    """Shape (n, classes)."""


class Network(nn.Module, ABC):
    """A classifier whose ``forward`` returns `Outputs`."""

    def __init__(self, n_features: int, n_classes: int) -> None:
        super().__init__()
        self.n_features = n_features
        self.n_classes = n_classes

    @abstractmethod
    def forward(self, x: Tensor) -> Outputs:
        """Return the features and logits of a batch."""


class BodyNetwork(Network):
    """A body that returns features of shape (n, `n_features`), and a linear layer on them."""

    def __init__(self, body: nn.Module, n_features: int, n_classes: int) -> None:
        super().__init__(n_features, n_classes)
        self.body = body
        self.head = nn.Linear(n_features, n_classes)

    def forward(self, x: Tensor) -> Outputs:
        """Return the features and logits of a batch."""
        features = self.body(x)
        return Outputs(features, self.head(features))


@dataclass(frozen=True)
class NetworkRequest:
    """The arguments of one call of ``build_network``, checked."""

    name: str
    """Full name, such as ``resnet50`` or ``timm:vit_small_patch16_224``."""
    library_name: str
    """Part of the name after the colon; empty for networks of this package."""
    n_classes: int
    in_shape: tuple[int, ...]
    """Shape of one sample: (channels, height, width), or (dimensions,)."""
    weights: str | Path | None = None
    """File of weights, ``"pretrained"``, or None for random initial weights."""
    feature_layer: str | None = None
    """Layer whose output is the features; None for the input of the classifier."""

    def __post_init__(self) -> None:
        if self.n_classes < 2:
            raise InputError(f"n_classes must be at least 2, got {self.n_classes}.")
        check_shape(self.in_shape)


def check_shape(in_shape: tuple[int, ...]) -> None:
    """Raise `InputError` unless `in_shape` can be the shape of one sample."""
    if not in_shape or any(size < 1 for size in in_shape):
        raise InputError(
            "in_shape must be the shape of one sample, such as (3, 32, 32) for images or (512,) "
            f"for vectors, got {tuple(in_shape)}."
        )


def image_channels(request: NetworkRequest, *, at_least: int = 1) -> int:
    """Return the number of channels of images; raise if samples are no images or too small."""
    if len(request.in_shape) != 3:
        raise InputError(
            f"{request.name} takes images, in_shape=(channels, height, width), got "
            f"{request.in_shape}. For vectors choose 'mlp'."
        )
    if min(request.in_shape[1:]) < at_least:
        raise InputError(
            f"{request.name} takes images of at least {at_least} x {at_least} pixels, got "
            f"in_shape={request.in_shape}. Scale them up, or choose 'cifar_resnet18'."
        )
    return request.in_shape[0]


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Put `module` in evaluation mode, without gradients, while the block runs."""
    # Each part gets its own mode back: users may have frozen the statistics of some layers.
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, mode in modes:
            part.training = mode


@contextmanager
def seeded(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """Seed torch's default generators while the block runs, then restore their state.

    Initial weights, and layers such as dropout, draw from these generators and from no other. The
    generator of the CPU is seeded; the one of `device` as well, if that is a GPU.
    """
    on_gpu = device is not None and device.type == "cuda"
    with torch.random.fork_rng(devices=[device] if on_gpu else []):
        # Not torch.manual_seed: it would change the generators of all GPUs, and only those listed
        # above are restored.
        torch.default_generator.manual_seed(seed)
        if on_gpu:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield
