"""How rows become batches for a network: views, and mixtures of clean and rejected samples.

Every sample has its own mixing weight (Eq. cutmix). With one weight per batch, as CutMix's authors
write it, Beta(0.5, 0.5) would make about half of the batches nearly all clean or nearly all
rejected, and their steps would learn from one side only. The expectation of the loss is the same.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from kspr.train.augment import crop_and_flip, normalise
from kspr.train.inputs import Inputs
from kspr.train.randomness import beta, integers_below
from kspr.train.settings import TrainSettings

__all__ = [
    "ImagePipeline",
    "InputPipeline",
    "VectorPipeline",
    "cutmix",
    "mixup",
    "pipeline_for",
    "stored_pipeline",
]


def cutmix(
    a: Tensor,
    target_a: Tensor,
    b: Tensor,
    target_b: Tensor,
    generator: torch.Generator,
    alpha: float = 0.5,
) -> tuple[Tensor, Tensor]:
    """Paste a box from each image of `b` into the same row of `a`; mix the soft targets alike.

    The box covers ``1 - lam`` of the image, with lam from Beta(alpha, alpha). Its centre is uniform
    over the image, and the part outside the image is dropped. `target_a` is weighted by the share
    of pixels that come from `a`.
    """
    inside = _boxes(a, generator, alpha)
    mixed = torch.where(inside[:, None], b, a)
    # Counted, not taken from the draw: clipping at the border and rounding change the share.
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
    """Return ``lam a + (1 - lam) b`` row by row, and the soft targets mixed by the same lam.

    lam is from Beta(alpha, alpha), one per row. For vectors, which have no pixels to paste.
    """
    weight = beta(len(a), alpha, generator, a.device)
    return _blend(a, b, weight), _blend(target_a, target_b, weight)


def _boxes(images: Tensor, generator: torch.Generator, alpha: float) -> Tensor:
    """Return (n, h, w) booleans that are true inside a random box per image."""
    n, device = len(images), images.device
    # The root: a box of this side has the area 1 - lam.
    side = (1 - beta(n, alpha, generator, device)).sqrt()
    rows, columns = (_spans(side, size, generator) for size in (images.shape[-2], images.shape[-1]))
    return rows[:, :, None] & columns[:, None, :]


def _spans(side: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """Return (n, size) booleans: a random interval of ``side * size`` pixels, clipped."""
    length = (side * size).long()
    centre = integers_below(torch.full_like(length, size), generator)
    start = centre - length // 2
    at = torch.arange(size, device=side.device)
    return (at >= start[:, None]) & (at < (start + length)[:, None])


def _blend(a: Tensor, b: Tensor, weight: Tensor) -> Tensor:
    weight = weight.to(a.dtype).view(-1, *[1] * (a.ndim - 1))
    return weight * a + (1 - weight) * b


class InputPipeline:
    """Turn rows into what a network computes on: views of a batch, and mixtures of two batches.

    `mixing` is `cutmix` or `mixup`, whose mixing weights are drawn from Beta(alpha, alpha).
    """

    def __init__(self, mixing: Callable[..., tuple[Tensor, Tensor]], alpha: float) -> None:
        self._mixing, self._alpha = mixing, alpha

    def train_view(self, batch: Tensor, generator: torch.Generator) -> Tensor:  # noqa: ARG002 - vectors are not augmented
        """Return the network's input for training, augmented at random if it is an image."""
        return self.plain_view(batch)

    def plain_view(self, batch: Tensor) -> Tensor:
        """Return the network's input for prediction, without augmentation."""
        raise NotImplementedError

    def mix(
        self, a: Tensor, target_a: Tensor, b: Tensor, target_b: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Return mixtures of `a` and `b`, and of their targets with the same weights."""
        return self._mixing(a, target_a, b, target_b, generator, alpha=self._alpha)

    def state(self) -> dict[str, Tensor]:
        """Return the tensors that were measured on the training data, for `stored_pipeline`."""
        return {}


class VectorPipeline(InputPipeline):
    """Embeddings: centred, divided by one scale, and mixed as vectors."""

    def __init__(self, centre: Tensor, scale: Tensor, alpha: float) -> None:
        super().__init__(mixup, alpha)
        self._centre, self._scale = centre, scale

    def plain_view(self, batch: Tensor) -> Tensor:
        """Return the standardised batch."""
        return (batch - self._centre.to(batch.device)) / self._scale.to(batch.device)

    def state(self) -> dict[str, Tensor]:
        """Return centre and scale."""
        return {"centre": self._centre, "scale": self._scale}


class ImagePipeline(InputPipeline):
    """Images: cropped and flipped while the network learns, and mixed by CutMix."""

    def __init__(self, settings: TrainSettings, channels: int) -> None:
        super().__init__(cutmix, settings.mix_alpha)
        self._mean, self._std = (
            _channels(values, channels) for values in (settings.mean, settings.std)
        )
        self._padding, self._flip = settings.padding, settings.flip

    def train_view(self, batch: Tensor, generator: torch.Generator) -> Tensor:
        """Return the batch cropped, flipped and normalised."""
        # Cropped and flipped as bytes, not as floats: that takes a quarter of the memory.
        batch = crop_and_flip(batch, generator, self._padding, flip=self._flip)
        return self.plain_view(batch)

    def plain_view(self, batch: Tensor) -> Tensor:
        """Return the normalised batch."""
        return normalise(batch, self._mean, self._std)


def pipeline_for(inputs: Inputs, settings: TrainSettings) -> InputPipeline:
    """Return the pipeline for `settings`, with statistics of the training data `inputs`."""
    state = _measure(inputs) if settings.input == "embeddings" else {}
    return stored_pipeline(state, inputs.shape, settings)


def stored_pipeline(
    state: dict[str, Tensor], shape: tuple[int, ...], settings: TrainSettings
) -> InputPipeline:
    """Return the pipeline whose `state` was stored; `shape` is that of one row."""
    if settings.input == "images":
        return ImagePipeline(settings, shape[0])
    centre, scale = state["centre"], state["scale"]
    for value, expected in ((centre, shape), (scale, ())):
        if not isinstance(value, Tensor) or value.shape != expected or value.dtype != torch.float32:
            raise ValueError("the scale of the features has another shape or type")
    return VectorPipeline(centre, scale, settings.mix_alpha)


def _measure(inputs: Inputs, most: int = 20_000) -> dict[str, Tensor]:
    """Return the mean of each column, and one scale for all columns, from at most `most` rows."""
    # One scale for all: principal components keep their proportions, and columns of noise are
    # not enlarged.
    # Evenly spaced rows: files are often sorted by class.
    rows = torch.linspace(0, len(inputs) - 1, min(most, len(inputs))).long()
    sample = inputs.take(rows)
    centre = sample.mean(dim=0)
    scale = (sample - centre).square().mean().sqrt()
    # Constant embeddings have the scale 0.
    return {"centre": centre.cpu(), "scale": scale.clamp_min(1e-12).cpu()}


def _channels(values: tuple[float, ...], channels: int) -> tuple[float, ...]:
    """Return one value per channel: the mean of `values` if their number differs."""
    if len(values) == channels:
        return values
    return (sum(values) / len(values),) * channels
