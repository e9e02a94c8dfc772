"""Crops of a batch, every image its own, without a loop over images."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from kspr.train.randomness import chance, uniform, whole

__all__ = ["Boxes", "flip_half", "random_boxes", "resize_boxes", "shift"]

_TRIES = 10
"""As in torchvision: a box that does not fit is drawn again; in the end the middle is taken."""


def shift(images: Tensor, padding: int, generator: torch.Generator) -> Tensor:
    """Return each image cut out again, at its own place, from `padding` more black pixels."""
    if padding == 0:
        return images
    n, _, height, width = images.shape
    padded = functional.pad(images, (padding,) * 4)
    places = torch.full((2, n), 2 * padding + 1, device=images.device)
    top, left = whole(places, generator)
    # A view of every possible crop: only the chosen ones are copied, row by row.
    windows = padded.unfold(2, height, 1).unfold(3, width, 1)
    return windows[torch.arange(n, device=images.device), :, top, left]


def flip_half(images: Tensor, generator: torch.Generator) -> Tensor:
    """Return the batch with each image mirrored, left to right, by the toss of a coin."""
    flipped = chance(len(images), 0.5, generator, images.device)
    return torch.where(flipped[:, None, None, None], images.flip(3), images)


@dataclass(frozen=True)
class Boxes:
    """One box per image, in whole pixels."""

    top: Tensor
    left: Tensor
    height: Tensor
    width: Tensor


def random_boxes(
    images: Tensor,
    area: tuple[float, float],
    ratio: tuple[float, float],
    generator: torch.Generator,
) -> Boxes:
    """Return boxes with a share of the image's area from `area`, and sides in a `ratio`.

    The ratio, width to height, is uniform on a logarithmic scale.
    """
    full_height, full_width = images.shape[2:]
    height, width, fits = _random_sides(images, area, ratio, generator)
    # The first that fits; argmax gives 0 where none does.
    first, fitted = fits.int().argmax(1, keepdim=True), fits.any(1)
    middle = _largest(full_height, full_width, ratio)
    height = torch.where(fitted, height.gather(1, first)[:, 0], middle[0]).long()
    width = torch.where(fitted, width.gather(1, first)[:, 0], middle[1]).long()
    top = whole(full_height - height + 1, generator)
    left = whole(full_width - width + 1, generator)
    return Boxes(
        torch.where(fitted, top, (full_height - height) // 2),
        torch.where(fitted, left, (full_width - width) // 2),
        height,
        width,
    )


def _random_sides(
    images: Tensor,
    area: tuple[float, float],
    ratio: tuple[float, float],
    generator: torch.Generator,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return heights and widths of several boxes per image, and which of them fit into it."""
    n, _, full_height, full_width = images.shape
    shape, device = (n, _TRIES), images.device
    areas = uniform(shape, generator, device, *area) * (full_height * full_width)
    ratios = uniform(shape, generator, device, math.log(ratio[0]), math.log(ratio[1])).exp()
    height, width = (areas / ratios).sqrt().round(), (areas * ratios).sqrt().round()
    fits = (height >= 1) & (height <= full_height) & (width >= 1) & (width <= full_width)
    return height, width, fits


def _largest(height: int, width: int, ratio: tuple[float, float]) -> tuple[float, float]:
    """Return the sides of the largest box in the middle whose ratio is allowed."""
    if width / height < ratio[0]:
        return round(width / ratio[0]), width
    if width / height > ratio[1]:
        return height, round(height * ratio[1])
    return height, width


def resize_boxes(images: Tensor, boxes: Boxes) -> Tensor:
    """Return what lies in `boxes`, each scaled to the size of the image, bilinearly.

    The same as cropping first: nothing from outside a box enters at its border.
    """
    height, width = images.shape[2:]
    rows = _positions(boxes.top, boxes.height, height)[:, :, None].expand(-1, -1, width)
    columns = _positions(boxes.left, boxes.width, width)[:, None, :].expand(-1, height, -1)
    grid = torch.stack([(2 * columns + 1) / width - 1, (2 * rows + 1) / height - 1], 3)
    return functional.grid_sample(images, grid, padding_mode="border", align_corners=False)


def _positions(start: Tensor, length: Tensor, size: int) -> Tensor:
    """Return (n, size): where in the image each pixel of the result looks, along one side."""
    centres = torch.arange(size, device=start.device) + 0.5
    at = centres * (length / size)[:, None] - 0.5
    inside = at.clamp_min(0).minimum((length - 1)[:, None].float())
    return inside + start[:, None]
