"""How rows reach a network: vectors and images, each with its own views and its own mixing."""

from typing import Protocol

import torch
from torch import Tensor

from kspr.train.augment import Augment, normalise
from kspr.train.inputs import Inputs
from kspr.train.mixing import cutmix, mixup
from kspr.train.settings import TrainSettings

__all__ = ["ImageMedium", "Medium", "VectorMedium", "medium_for", "stored_medium"]


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
