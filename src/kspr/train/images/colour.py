"""Colours of a batch, every image with its own strength; pixels are floats from 0 to 1."""

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["blur", "brightness", "contrast", "grey", "hue", "saturation"]


def grey(images: Tensor) -> Tensor:
    """Return (n, 1, h, w): how light each pixel is to the eye; other than RGB, the mean."""
    if images.shape[1] != 3:
        return images.mean(1, keepdim=True)
    weights = images.new_tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1)
    return (images * weights).sum(1, keepdim=True)


def brightness(images: Tensor, factor: Tensor) -> Tensor:
    """Return lighter (factor above 1) or darker images; 0 is black."""
    return (images * _each(factor)).clamp(0, 1)


def contrast(images: Tensor, factor: Tensor) -> Tensor:
    """Return images further from (above 1) or nearer to their own mean grey; 0 is all grey."""
    return _between(grey(images).mean((2, 3), keepdim=True), images, factor)


def saturation(images: Tensor, factor: Tensor) -> Tensor:
    """Return images with more (above 1) or less colour; 0 has none."""
    return _between(grey(images), images, factor)


def hue(images: Tensor, factor: Tensor) -> Tensor:
    """Return images with colours turned around the circle by `factor` turns."""
    value, saturated, angle = _to_hsv(images)
    angle = angle + 6 * _each(factor)[:, 0]
    # One formula for all three channels, each a third of the circle from the next.
    shifted = torch.stack([angle + 5, angle + 3, angle + 1], 1) % 6
    away = torch.minimum(shifted, 4 - shifted).clamp(0, 1)
    return value[:, None] * (1 - saturated[:, None] * away)


def _to_hsv(images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return value, saturation, and the hue in sixths of the circle."""
    red, green, blue = images.unbind(1)
    value, low = images.amax(1), images.amin(1)
    spread = value - low
    safe = spread.clamp_min(1e-12)
    angle = torch.where(
        value == red,
        (green - blue) / safe,
        torch.where(value == green, 2 + (blue - red) / safe, 4 + (red - green) / safe),
    )
    return value, spread / value.clamp_min(1e-12), angle


def blur(images: Tensor, sigma: Tensor, reach: int) -> Tensor:
    """Return images under a Gaussian of `sigma` pixels each, cut off at `reach` pixels."""
    n, channels = images.shape[:2]
    at = torch.arange(-reach, reach + 1, device=images.device)
    kernel = (-0.5 * (at / sigma[:, None].clamp_min(1e-3)) ** 2).softmax(1).to(images.dtype)
    kernel = kernel.repeat_interleave(channels, 0)[:, None]
    # Each map is a group of its own, so each has its own kernel.
    maps = functional.pad(images, (reach,) * 4, mode="replicate").flatten(0, 1)[None]
    maps = functional.conv2d(maps, kernel[..., None], groups=n * channels)
    maps = functional.conv2d(maps, kernel[:, :, None], groups=n * channels)
    return maps.view(images.shape)


def _between(start: Tensor, images: Tensor, factor: Tensor) -> Tensor:
    strength = _each(factor)
    return (strength * images + (1 - strength) * start).clamp(0, 1)


def _each(values: Tensor) -> Tensor:
    return values.view(-1, 1, 1, 1)
