"""What the caller asked of a network, and the check that it can be built at all."""

from dataclasses import dataclass
from pathlib import Path

from kspr.errors import InputError

__all__ = [
    "Request",
    "channels",
    "check_shape",
]


@dataclass(frozen=True)
class Request:
    """One call of ``build_network``; `rest` is what follows the colon of its name."""

    name: str
    rest: str
    n_classes: int
    in_shape: tuple[int, ...]
    weights: str | Path | None = None
    feature_layer: str | None = None

    def __post_init__(self) -> None:
        if self.n_classes < 2:
            raise InputError(f"n_classes must be at least 2, got {self.n_classes}.")
        check_shape(self.in_shape)


def check_shape(in_shape: tuple[int, ...]) -> None:
    """Refuse what is no shape of one sample."""
    if not in_shape or any(size < 1 for size in in_shape):
        raise InputError(
            "in_shape must be the shape of one sample, such as (3, 32, 32) for images or (512,) "
            f"for vectors, got {tuple(in_shape)}."
        )


def channels(request: Request, *, at_least: int = 1) -> int:
    """Return the channels of the images that a convolutional network is asked to take."""
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
