"""Mixtures of clean and rejected samples (Eq. cutmix), for images and for vectors.

Every sample draws its own weight. With one weight for a batch, as CutMix's authors write it,
Beta(0.5, 0.5) would make every other batch nearly all clean or nearly all rejected, and its step
would learn from one side only; the expectation of the loss is the same.
"""

from typing import Protocol

import torch
from torch import Tensor

from kspr.errors import InputError
from kspr.train.images.augment import Augment, normalise
from kspr.train.inputs import Inputs
from kspr.train.randomness import beta, whole
from kspr.train.settings import TrainSettings

__all__ = [
    "ImageMedium",
    "Medium",
    "VectorMedium",
    "cutmix",
    "medium_for",
    "mixup",
    "stored_medium",
]


def cutmix(
    a: Tensor,
    target_a: Tensor,
    b: Tensor,
    target_b: Tensor,
    generator: torch.Generator,
    alpha: float = 0.5,
) -> tuple[Tensor, Tensor]:
    """Return images of `a` with a box from the same row of `b`, and their soft targets.

    The box is as large as ``1 - lam`` of the image, with lam from Beta(alpha, alpha), its centre is
    anywhere, and what lies outside the image is lost. The weight of `target_a` is the share of
    pixels that are really `a`'s, so mixing never changes how much a pixel counts.
    """
    _check(a, target_a, b, target_b, alpha)
    inside = _boxes(a, generator, alpha)
    mixed = torch.where(inside[:, None], b, a)
    # Counted, not drawn: clipping at the border and whole pixels change the share.
    weight = 1 - inside.float().mean((1, 2))
    return mixed, _blend(target_a, target_b, weight)


def mixup(
    a: Tensor,
    target_a: Tensor,
    b: Tensor,
    target_b: Tensor,
    generator: torch.Generator,
    alpha: float = 0.5,
) -> tuple[Tensor, Tensor]:
    """Return ``lam a + (1 - lam) b`` row by row, and the soft targets by the same lam.

    The same as `cutmix` for vectors, which have no pixels to swap; lam is from Beta(alpha, alpha).
    """
    _check(a, target_a, b, target_b, alpha)
    weight = beta(len(a), alpha, generator, a.device)
    return _blend(a, b, weight), _blend(target_a, target_b, weight)


def _boxes(images: Tensor, generator: torch.Generator, alpha: float) -> Tensor:
    """Return (n, h, w) booleans, true inside the box."""
    n, device = len(images), images.device
    side = (1 - beta(n, alpha, generator, device)).sqrt()
    rows, columns = (_spans(side, size, generator) for size in (images.shape[-2], images.shape[-1]))
    return rows[:, :, None] & columns[:, None, :]


def _spans(side: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """Return (n, size) booleans: a run of ``side * size`` pixels, cut off at both ends."""
    length = (side * size).long()
    centre = whole(torch.full_like(length, size), generator)
    start = centre - length // 2
    at = torch.arange(size, device=side.device)
    return (at >= start[:, None]) & (at < (start + length)[:, None])


def _blend(a: Tensor, b: Tensor, weight: Tensor) -> Tensor:
    weight = weight.to(a.dtype).view(-1, *[1] * (a.ndim - 1))
    return weight * a + (1 - weight) * b


def _check(a: Tensor, target_a: Tensor, b: Tensor, target_b: Tensor, alpha: float) -> None:
    if a.shape != b.shape:
        raise InputError(f"a has shape {tuple(a.shape)} but b has {tuple(b.shape)}.")
    for name, target in (("target_a", target_a), ("target_b", target_b)):
        if target.ndim != 2 or len(target) != len(a) or not target.is_floating_point():
            raise InputError(
                f"{name} must be soft targets of shape ({len(a)}, classes), got {target.dtype} of "
                f"shape {tuple(target.shape)}. Turn labels into rows with one_hot(...).float()."
            )
    if not alpha > 0:
        raise InputError(f"alpha must be positive, got {alpha}. The paper takes 0.5.")


class Medium(Protocol):
    """Views of a batch, and mixtures of two."""

    def train_view(self, batch: Tensor, generator: torch.Generator) -> Tensor:
        """Return what the network sees of `batch` while it learns."""
        ...

    def plain_view(self, batch: Tensor) -> Tensor:
        """Return what the network sees of `batch` when it is asked."""
        ...

    def mix(
        self, a: Tensor, target_a: Tensor, b: Tensor, target_b: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Return mixtures of `a` and `b`, and of their targets by the same weights."""
        ...

    def state(self) -> dict[str, Tensor]:
        """Return what was learned from the training data."""
        ...


class VectorMedium:
    """Embeddings: centred, brought to one scale, and mixed as vectors."""

    def __init__(self, centre: Tensor, scale: Tensor, alpha: float) -> None:
        self._centre, self._scale, self._alpha = centre, scale, alpha

    def train_view(self, batch: Tensor, generator: torch.Generator) -> Tensor:  # noqa: ARG002 - vectors have one view
        """Return the standardised batch."""
        return self.plain_view(batch)

    def plain_view(self, batch: Tensor) -> Tensor:
        """Return the standardised batch."""
        return (batch - self._centre.to(batch.device)) / self._scale.to(batch.device)

    def mix(
        self, a: Tensor, target_a: Tensor, b: Tensor, target_b: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Return convex combinations of the vectors."""
        return mixup(a, target_a, b, target_b, generator, alpha=self._alpha)

    def state(self) -> dict[str, Tensor]:
        """Return centre and scale."""
        return {"centre": self._centre, "scale": self._scale}


class ImageMedium:
    """Images: cropped and flipped while the network learns, and mixed by CutMix."""

    def __init__(self, settings: TrainSettings, channels: int) -> None:
        self._alpha = settings.mix_alpha
        self._mean, self._std = (
            _channels(settings.mean, channels),
            _channels(settings.std, channels),
        )
        self._augment = Augment(settings.padding, settings.flip, self._mean, self._std)

    def train_view(self, batch: Tensor, generator: torch.Generator) -> Tensor:
        """Return the batch cropped, flipped and normalised."""
        return self._augment(batch, generator)

    def plain_view(self, batch: Tensor) -> Tensor:
        """Return the normalised batch."""
        return normalise(batch, self._mean, self._std)

    def mix(
        self, a: Tensor, target_a: Tensor, b: Tensor, target_b: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Return images with a box of the other; targets by the share of pixels."""
        return cutmix(a, target_a, b, target_b, generator, alpha=self._alpha)

    def state(self) -> dict[str, Tensor]:
        """Return nothing: mean and standard deviation are settings."""
        return {}


def medium_for(inputs: Inputs, settings: TrainSettings) -> Medium:
    """Return the medium of `settings`, measured on the training data."""
    state = _measure(inputs) if settings.input == "embeddings" else {}
    return stored_medium(state, inputs.shape, settings)


def stored_medium(
    state: dict[str, Tensor], shape: tuple[int, ...], settings: TrainSettings
) -> Medium:
    """Return the medium whose `state` was stored."""
    if settings.input == "images":
        return ImageMedium(settings, shape[0])
    return VectorMedium(state["centre"], state["scale"], settings.mix_alpha)


def _measure(inputs: Inputs, most: int = 20_000) -> dict[str, Tensor]:
    """Return the mean of each column, and one scale for all of them.

    One scale: principal components keep their proportions, and no column of noise is blown up.
    """
    rows = torch.linspace(0, len(inputs) - 1, min(most, len(inputs))).long()
    sample = inputs.take(rows)
    centre = sample.mean(dim=0)
    scale = (sample - centre).square().mean().sqrt()
    return {"centre": centre.cpu(), "scale": scale.clamp_min(1e-12).cpu()}


def _channels(values: tuple[float, ...], channels: int) -> tuple[float, ...]:
    """Return one value per channel; grey images take the mean of three."""
    if len(values) == channels:
        return values
    return (sum(values) / len(values),) * channels
