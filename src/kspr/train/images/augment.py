"""Random views of images, for a whole batch at once on the batch's device.

Every image has its own random values, from the generator that is passed in.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from kspr.errors import InputError
from kspr.train.images import transforms
from kspr.train.randomness import chance, uniform

__all__ = ["Augment", "ViewSettings", "normalise", "simsiam_views"]


def normalise(images: Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """Return ``(images - mean) / std`` per channel, in float32.

    Images are bytes from 0 to 255 or floats from 0 to 1; `mean` and `std` are on the scale 0 to 1.
    """
    channels = _check(images)
    for name, values in (("mean", mean), ("std", std)):
        if len(values) not in (1, channels):
            raise InputError(
                f"{name} must have one number, or one for each of {channels} channels, got "
                f"{len(values)}."
            )
    centre, scale = (torch.tensor(v, device=images.device).view(1, -1, 1, 1) for v in (mean, std))
    return (_floats(images) - centre) / scale


@dataclass(frozen=True)
class Augment:
    """Crop with padding, flip and normalise: the augmentation of the paper."""

    padding: int = 4
    """Black pixels added on each side before an image is cropped to its old size; 0: no crop."""
    flip: bool = True
    """Mirror each image with probability 1/2."""
    mean: tuple[float, ...] = (0.0,)
    """Subtracted from pixels, one value or one per channel."""
    std: tuple[float, ...] = (1.0,)
    """Pixels are divided by it, one value or one per channel."""

    def __post_init__(self) -> None:
        if self.padding < 0:
            raise InputError(f"padding must be a number of pixels, 0 or more, got {self.padding}.")
        if min(self.std) <= 0:
            raise InputError(f"std must be positive, got {self.std}.")

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Return augmented images as floats; they come as bytes, or as floats from 0 to 1."""
        _check(images)
        # Cropped and flipped as bytes, not as floats: that takes a quarter of the memory.
        images = transforms.shift(images, self.padding, generator)
        if self.flip:
            images = transforms.flip_half(images, generator)
        return normalise(images, self.mean, self.std)


@dataclass(frozen=True)
class ViewSettings:
    """The augmentations of SimSiam; defaults are its authors' for CIFAR, without blur."""

    area: tuple[float, float] = (0.2, 1.0)
    """Bounds of the share of the image that a crop covers."""
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    """Bounds of the ratio of width to height of a crop."""
    flip: bool = True
    """Mirror each image with probability 1/2."""
    jitter_probability: float = 0.8
    """Probability that the four colour changes below are applied to an image."""
    brightness: float = 0.4
    """Factors are drawn from 1 - this to 1 + this; the same for contrast and saturation."""
    contrast: float = 0.4
    saturation: float = 0.4
    hue: float = 0.1
    """Largest rotation of the colours, in turns of the colour circle."""
    grey_probability: float = 0.2
    """Probability that an image loses its colours."""
    blur_probability: float = 0.0
    """Probability that an image is blurred; SimSiam takes 0.5 for ImageNet."""
    blur_sigma: tuple[float, float] = (0.1, 2.0)
    """Bounds of the blur's standard deviation, in pixels."""
    mean: tuple[float, ...] = (0.0,)
    """Subtracted from pixels, one value or one per channel."""
    std: tuple[float, ...] = (1.0,)
    """Pixels are divided by it, one value or one per channel."""


def simsiam_views(
    images: Tensor, generator: torch.Generator, settings: ViewSettings
) -> tuple[Tensor, Tensor]:
    """Return two random views of each image: crop, flip, colours, grey, blur, normalise.

    Images that are not RGB change in brightness and contrast only. The order of the four colour
    changes is drawn once per view of the batch, not per image, as in kornia.
    """
    _check(images)
    pixels = _floats(images)
    return _view(pixels, generator, settings), _view(pixels, generator, settings)


def _view(images: Tensor, generator: torch.Generator, settings: ViewSettings) -> Tensor:
    boxes = transforms.random_boxes(images, settings.area, settings.ratio, generator)
    images = transforms.resize_boxes(images, boxes)
    if settings.flip:
        images = transforms.flip_half(images, generator)
    jittered = _jitter(images, generator, settings)
    images = _sometimes(images, jittered, settings.jitter_probability, generator)
    if images.shape[1] == 3:
        # Three equal channels: the network still takes three.
        shades = transforms.grey(images).expand_as(images)
        images = _sometimes(images, shades, settings.grey_probability, generator)
    if settings.blur_probability:
        blurred = _blurred(images, generator, settings)
        images = _sometimes(images, blurred, settings.blur_probability, generator)
    return normalise(images, settings.mean, settings.std)


def _jitter(images: Tensor, generator: torch.Generator, settings: ViewSettings) -> Tensor:
    changes = [
        (transforms.brightness, _around_one(settings.brightness)),
        (transforms.contrast, _around_one(settings.contrast)),
        (transforms.saturation, _around_one(settings.saturation)),
        (transforms.hue, (-settings.hue, settings.hue)),
    ]
    used = len(changes) if images.shape[1] == 3 else 2
    # The four changes do not commute, so their order is random too.
    order = torch.randperm(used, generator=generator, device=generator.device)
    for number in order.tolist():
        change, bounds = changes[number]
        images = change(images, uniform((len(images),), generator, images.device, *bounds))
    return images


def _around_one(strength: float) -> tuple[float, float]:
    return max(0.0, 1 - strength), 1 + strength


def _blurred(images: Tensor, generator: torch.Generator, settings: ViewSettings) -> Tensor:
    sigma = uniform((len(images),), generator, images.device, *settings.blur_sigma)
    # Three times the largest sigma holds 99.7 % of the Gaussian.
    return transforms.blur(images, sigma, reach=math.ceil(3 * settings.blur_sigma[1]))


def _sometimes(
    images: Tensor, changed: Tensor, probability: float, generator: torch.Generator
) -> Tensor:
    """Return each image of `changed` with `probability`, else that of `images`."""
    chosen = chance(len(images), probability, generator, images.device)
    # Computed for all and then chosen: picking out images would need a copy and a wait for the GPU.
    return torch.where(chosen[:, None, None, None], changed, images)


def _floats(images: Tensor) -> Tensor:
    return images.float() / 255 if images.dtype == torch.uint8 else images.float()


def _check(images: Tensor) -> int:
    """Return the number of channels; raise if these are no images."""
    if images.ndim != 4 or not (images.dtype == torch.uint8 or images.is_floating_point()):
        raise InputError(
            "images must be bytes (uint8) or floats of shape (n, channels, height, width), got "
            f"{images.dtype} of shape {tuple(images.shape)}."
        )
    return images.shape[1]
