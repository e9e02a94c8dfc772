"""Views of images, made for a whole batch at once where the batch lives.

Every image draws its own numbers, from the generator that is passed in.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from kspr.errors import InputError
from kspr.train.images import colour as _colour
from kspr.train.images.crops import flip_half, random_boxes, resize_boxes, shift
from kspr.train.randomness import chance, uniform

__all__ = ["Augment", "ViewSettings", "normalise", "simsiam_views"]


def normalise(images: Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """Return ``(images - mean) / std`` per channel, in float32.

    Bytes count from 0 to 255, floats from 0 to 1; `mean` and `std` are in units of 0 to 1.
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
    """Crop with padding, flip and normalise: what the paper trains with."""

    padding: int = 4
    """Black pixels around an image before it is cropped to its size again; 0 for no crop."""
    flip: bool = True
    """Whether half of the images are mirrored."""
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        if self.padding < 0:
            raise InputError(f"padding must be a number of pixels, 0 or more, got {self.padding}.")
        if min(self.std) <= 0:
            raise InputError(f"std must be positive, got {self.std}.")

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Return (n, c, h, w) floats of (n, c, h, w) bytes, or of floats from 0 to 1."""
        _check(images)
        # Bytes are moved around before they become floats: a quarter of the memory.
        images = shift(images, self.padding, generator)
        if self.flip:
            images = flip_half(images, generator)
        return normalise(images, self.mean, self.std)


@dataclass(frozen=True)
class ViewSettings:
    """SimSiam's augmentations; the defaults are its authors' for CIFAR, which has no blur."""

    area: tuple[float, float] = (0.2, 1.0)
    """Share of the image that a crop covers."""
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    """Width to height of a crop."""
    flip: bool = True
    jitter_probability: float = 0.8
    brightness: float = 0.4
    contrast: float = 0.4
    saturation: float = 0.4
    hue: float = 0.1
    grey_probability: float = 0.2
    blur_probability: float = 0.0
    """0.5 for ImageNet."""
    blur_sigma: tuple[float, float] = (0.1, 2.0)
    """In pixels."""
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)


def simsiam_views(
    images: Tensor, generator: torch.Generator, settings: ViewSettings
) -> tuple[Tensor, Tensor]:
    """Return two views of each image: crop and resize, flip, jitter, greyscale, blur, normalise.

    Images that are not RGB change in brightness and contrast only. The order of the four colour
    changes is drawn once per view, not per image, as kornia does too.
    """
    _check(images)
    pixels = _floats(images)
    return _view(pixels, generator, settings), _view(pixels, generator, settings)


def _view(images: Tensor, generator: torch.Generator, settings: ViewSettings) -> Tensor:
    images = resize_boxes(images, random_boxes(images, settings.area, settings.ratio, generator))
    if settings.flip:
        images = flip_half(images, generator)
    jittered = _jitter(images, generator, settings)
    images = _sometimes(images, jittered, settings.jitter_probability, generator)
    if images.shape[1] == 3:
        shades = _colour.grey(images).expand_as(images)
        images = _sometimes(images, shades, settings.grey_probability, generator)
    if settings.blur_probability:
        blurred = _blurred(images, generator, settings)
        images = _sometimes(images, blurred, settings.blur_probability, generator)
    return normalise(images, settings.mean, settings.std)


def _jitter(images: Tensor, generator: torch.Generator, settings: ViewSettings) -> Tensor:
    changes = [
        (_colour.brightness, _around_one(settings.brightness)),
        (_colour.contrast, _around_one(settings.contrast)),
        (_colour.saturation, _around_one(settings.saturation)),
        (_colour.hue, (-settings.hue, settings.hue)),
    ]
    used = len(changes) if images.shape[1] == 3 else 2
    order = torch.randperm(used, generator=generator, device=generator.device)
    for number in order.tolist():
        change, bounds = changes[number]
        images = change(images, uniform((len(images),), generator, images.device, *bounds))
    return images


def _around_one(strength: float) -> tuple[float, float]:
    return max(0.0, 1 - strength), 1 + strength


def _blurred(images: Tensor, generator: torch.Generator, settings: ViewSettings) -> Tensor:
    sigma = uniform((len(images),), generator, images.device, *settings.blur_sigma)
    return _colour.blur(images, sigma, reach=math.ceil(3 * settings.blur_sigma[1]))


def _sometimes(
    images: Tensor, changed: Tensor, probability: float, generator: torch.Generator
) -> Tensor:
    """Return `changed` where each image's own coin falls so, else `images`."""
    chosen = chance(len(images), probability, generator, images.device)
    return torch.where(chosen[:, None, None, None], changed, images)


def _floats(images: Tensor) -> Tensor:
    return images.float() / 255 if images.dtype == torch.uint8 else images.float()


def _check(images: Tensor) -> int:
    """Return the number of channels."""
    if images.ndim != 4 or not (images.dtype == torch.uint8 or images.is_floating_point()):
        raise InputError(
            "images must be bytes (uint8) or floats of shape (n, channels, height, width), got "
            f"{images.dtype} of shape {tuple(images.shape)}."
        )
    return images.shape[1]
