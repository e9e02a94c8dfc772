"""Crops, flips, colours and blur of a batch; every image has its own random values.

There is no loop over images. Colour functions take pixels as floats from 0 to 1.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from kspr.errors import InputError
from kspr.selectors.validation import check_types
from kspr.train.world import chance, integers_below, uniform

_TRIES = 10
"""Draws of a box that does not fit into its image; then a box in the middle is taken, as in
torchvision."""


def crop_and_flip(
    images: Tensor, generator: torch.Generator, padding: int = 4, *, flip: bool = True
) -> Tensor:
    """Crop each image at its own position, and mirror it left to right with probability 1/2.

    It is padded with `padding` black pixels on each side before, and keeps its size.
    """
    _check(images)
    if padding:
        n, _, height, width = images.shape
        padded = functional.pad(images, (padding,) * 4)
        places = torch.full((2, n), 2 * padding + 1, device=images.device)
        top, left = integers_below(places, generator)
        # A view of every possible crop; only the chosen ones are copied.
        windows = padded.unfold(2, height, 1).unfold(3, width, 1)
        images = windows[torch.arange(n, device=images.device), :, top, left]
    return _sometimes(images, images.flip(3), 0.5, generator) if flip else images


class Boxes(NamedTuple):
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
    """Return a random box per image; `area` bounds its share of the image, `ratio` its sides.

    The ratio of width to height is uniform on a logarithmic scale.
    """
    n, _, full_height, full_width = images.shape
    shape, device = (n, _TRIES), images.device
    areas = uniform(shape, generator, device, *area) * (full_height * full_width)
    ratios = uniform(shape, generator, device, math.log(ratio[0]), math.log(ratio[1])).exp()
    heights, widths = (areas / ratios).sqrt().round(), (areas * ratios).sqrt().round()
    fits = (heights >= 1) & (heights <= full_height) & (widths >= 1) & (widths <= full_width)
    # The first box that fits; argmax gives 0 where none does.
    first, fitted = fits.int().argmax(1, keepdim=True), fits.any(1)
    middle = _largest(full_height, full_width, ratio)
    height = torch.where(fitted, heights.gather(1, first)[:, 0], middle[0]).long()
    width = torch.where(fitted, widths.gather(1, first)[:, 0], middle[1]).long()
    top = integers_below(full_height - height + 1, generator)
    left = integers_below(full_width - width + 1, generator)
    return Boxes(
        torch.where(fitted, top, (full_height - height) // 2),
        torch.where(fitted, left, (full_width - width) // 2),
        height,
        width,
    )


def _largest(height: int, width: int, ratio: tuple[float, float]) -> tuple[float, float]:
    """Return height and width of the largest box whose ratio is allowed."""
    if width / height < ratio[0]:
        return round(width / ratio[0]), width
    if width / height > ratio[1]:
        return height, round(height * ratio[1])
    return height, width


def resize_boxes(images: Tensor, boxes: Boxes) -> Tensor:
    """Crop each image to its box and scale the crop to the size of the image, bilinearly.

    Pixels outside a box do not enter at its border.
    """
    height, width = images.shape[2:]
    rows = _positions(boxes.top, boxes.height, height)[:, :, None].expand(-1, -1, width)
    columns = _positions(boxes.left, boxes.width, width)[:, None, :].expand(-1, height, -1)
    # grid_sample counts from -1 to 1 between the outer edges of the image, x before y.
    grid = torch.stack([(2 * columns + 1) / width - 1, (2 * rows + 1) / height - 1], 3)
    return functional.grid_sample(images, grid, padding_mode="border", align_corners=False)


def _positions(start: Tensor, length: Tensor, size: int) -> Tensor:
    """Return (n, size): the position in the image that each pixel of a side is taken from."""
    centres = torch.arange(size, device=start.device) + 0.5
    at = centres * (length / size)[:, None] - 0.5
    # Clamped to the box, not to the image: neighbours outside the box must not enter.
    inside = at.clamp_min(0).minimum((length - 1)[:, None].float())
    return inside + start[:, None]


def grey(images: Tensor) -> Tensor:
    """Return the brightness of each pixel, (n, 1, h, w); the mean if images are not RGB."""
    if images.shape[1] != 3:
        return images.mean(1, keepdim=True)
    # The luma weights of ITU-R BT.601, which Pillow and torchvision use.
    weights = images.new_tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1)
    return (images * weights).sum(1, keepdim=True)


def brightness(images: Tensor, factor: Tensor) -> Tensor:
    """Multiply the pixels of each image by its factor; 0 is black."""
    return (images * _each(factor)).clamp(0, 1)


def contrast(images: Tensor, factor: Tensor) -> Tensor:
    """Change each image's contrast by its factor; 0 is the image's mean grey everywhere."""
    return _between(grey(images).mean((2, 3), keepdim=True), images, factor)


def saturation(images: Tensor, factor: Tensor) -> Tensor:
    """Change each image's saturation by its factor; 0 is a grey image."""
    return _between(grey(images), images, factor)


def hue(images: Tensor, factor: Tensor) -> Tensor:
    """Rotate the colours of each image by `factor` turns of the colour circle."""
    value, saturated, angle = _to_hsv(images)
    # Angles are in sixths of the circle.
    angle = angle + 6 * _each(factor)[:, 0]
    # One formula for all three channels, each a third of the circle from the next.
    shifted = torch.stack([angle + 5, angle + 3, angle + 1], 1) % 6
    away = torch.minimum(shifted, 4 - shifted).clamp(0, 1)
    return value[:, None] * (1 - saturated[:, None] * away)


def _to_hsv(images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return value, saturation, and hue in sixths of the colour circle."""
    red, green, blue = images.unbind(1)
    value, low = images.amax(1), images.amin(1)
    spread = value - low
    # A grey pixel has no hue: any angle will do, but not nan.
    safe = spread.clamp_min(1e-12)
    angle = torch.where(
        value == red,
        (green - blue) / safe,
        torch.where(value == green, 2 + (blue - red) / safe, 4 + (red - green) / safe),
    )
    return value, spread / value.clamp_min(1e-12), angle


def blur(images: Tensor, sigma: Tensor, reach: int) -> Tensor:
    """Blur each image with a Gaussian of its `sigma` pixels, cut off at `reach` pixels."""
    n, channels = images.shape[:2]
    at = torch.arange(-reach, reach + 1, device=images.device)
    kernel = (-0.5 * (at / sigma[:, None].clamp_min(1e-3)) ** 2).softmax(1).to(images.dtype)
    kernel = kernel.repeat_interleave(channels, 0)[:, None]
    # One group per map: each image has its own kernel.
    maps = functional.pad(images, (reach,) * 4, mode="replicate").flatten(0, 1)[None]
    # A Gaussian is separable: columns, then rows, instead of a square kernel.
    maps = functional.conv2d(maps, kernel[..., None], groups=n * channels)
    maps = functional.conv2d(maps, kernel[:, :, None], groups=n * channels)
    return maps.view(images.shape)


def _between(start: Tensor, images: Tensor, factor: Tensor) -> Tensor:
    strength = _each(factor)
    return (strength * images + (1 - strength) * start).clamp(0, 1)


def _each(values: Tensor) -> Tensor:
    return values.view(-1, 1, 1, 1)


def normalise(images: Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """Return ``(images - mean) / std`` per channel, in float32.

    Images are bytes from 0 to 255 or floats from 0 to 1; `mean` and `std` are on the scale 0 to 1.
    """
    _check(images)
    centre, scale = (torch.tensor(v, device=images.device).view(1, -1, 1, 1) for v in (mean, std))
    return (_floats(images) - centre) / scale


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

    def __post_init__(self) -> None:
        check_types(self)
        for name in ("area", "ratio", "blur_sigma"):
            # TOML and JSON give lists; the object is frozen, so it is set past the lock.
            bounds = tuple(float(value) for value in getattr(self, name))
            object.__setattr__(self, name, bounds)
            if len(bounds) != 2 or not 0 < bounds[0] <= bounds[1]:
                raise InputError(f"{name} must be two positive numbers in order, got {bounds}.")


def simsiam_views(
    images: Tensor, generator: torch.Generator, settings: ViewSettings
) -> tuple[Tensor, Tensor]:
    """Return two random views of each image, from 0 to 1: crop, flip, colours, grey, blur.

    Images that are not RGB change in brightness and contrast only. The order of the four colour
    changes is drawn once per view of the batch, not per image, as in kornia.
    """
    _check(images)
    pixels = _floats(images)
    return _view(pixels, generator, settings), _view(pixels, generator, settings)


def _view(images: Tensor, generator: torch.Generator, settings: ViewSettings) -> Tensor:
    boxes = random_boxes(images, settings.area, settings.ratio, generator)
    images = resize_boxes(images, boxes)
    if settings.flip:
        images = _sometimes(images, images.flip(3), 0.5, generator)
    jittered = _jitter(images, generator, settings)
    images = _sometimes(images, jittered, settings.jitter_probability, generator)
    if images.shape[1] == 3:
        # Three equal channels: the network still takes three.
        shades = grey(images).expand_as(images)
        images = _sometimes(images, shades, settings.grey_probability, generator)
    if settings.blur_probability:
        sigma = uniform((len(images),), generator, images.device, *settings.blur_sigma)
        # Three times the largest sigma holds 99.7 % of the Gaussian.
        blurred = blur(images, sigma, reach=math.ceil(3 * settings.blur_sigma[1]))
        images = _sometimes(images, blurred, settings.blur_probability, generator)
    return images


def _jitter(images: Tensor, generator: torch.Generator, settings: ViewSettings) -> Tensor:
    changes = [
        (change, (max(0.0, 1 - strength), 1 + strength))
        for change, strength in (
            (brightness, settings.brightness),
            (contrast, settings.contrast),
            (saturation, settings.saturation),
        )
    ]
    changes.append((hue, (-settings.hue, settings.hue)))
    used = len(changes) if images.shape[1] == 3 else 2
    # The four changes do not commute, so their order is random too.
    order = torch.randperm(used, generator=generator, device=generator.device)
    for number in order.tolist():
        change, bounds = changes[number]
        images = change(images, uniform((len(images),), generator, images.device, *bounds))
    return images


def _sometimes(
    images: Tensor, changed: Tensor, probability: float, generator: torch.Generator
) -> Tensor:
    """Return each image of `changed` with `probability`, else that of `images`."""
    chosen = chance(len(images), probability, generator, images.device)
    # Computed for all and then chosen: picking out images would need a copy and a wait for the GPU.
    return torch.where(chosen[:, None, None, None], changed, images)


def _floats(images: Tensor) -> Tensor:
    return images.float() / 255 if images.dtype == torch.uint8 else images.float()


def _check(images: Tensor) -> None:
    """Raise `InputError` if these are no images."""
    if images.ndim != 4 or not (images.dtype == torch.uint8 or images.is_floating_point()):
        raise InputError(
            "images must be bytes (uint8) or floats of shape (n, channels, height, width), got "
            f"{images.dtype} of shape {tuple(images.shape)}."
        )
