"""Features of images from small patches of these images, learned without labels.

Typical patches come from k-means, and an image is described by how strongly each of them appears
in each quarter of it (Coates, Ng, Lee: An analysis of single-layer networks in unsupervised
feature learning, 2011). No label is used, so these features can judge labels. They take about two
seconds for a thousand images on two cores. Where images are few, a linear fit to them knows more
than a network that has learned the labels.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from kspr._progress import Progress, ProgressMode
from kspr.train.distributed import World
from kspr.train.inputs import Inputs
from kspr.train.randomness import generator_for, integers_below

__all__ = ["Patches", "learn_patches", "patch_features"]

_SIDE = 32
"""Larger images are scaled down to this many pixels: patches tell of textures and edges."""
_SIZE = 6
"""Side of a patch in pixels."""
_PATCHES, _PER_IMAGE = 50_000, 50
"""Patches that the typical ones are learned from, and how many of these an image gives."""
_KINDS = 200
"""Number of typical patches."""
_ROUNDS = 10
_LEAST_CONTRAST = 10 / 255**2
"""Added to the variance of a patch, so that even patches are not scaled up to noise."""
_LEAST_VARIANCE = 0.05
"""Added to the variance of each direction of normalised patches before it becomes 1."""
_THRESHOLD = 1.0
"""Weaker appearances of a typical patch count as none."""
_REGIONS = 2
"""Regions along each side of an image."""
_BATCH = 128


class Patches(NamedTuple):
    """Typical patches, as filters for images."""

    filters: Tensor
    """Shape (kinds, channels, side, side); the entries of each add up to 0."""
    offset: Tensor
    """What each filter responds to the mean patch."""

    def features(self, images: Tensor) -> Tensor:
        """Return the features of images with pixels from 0 to 1, a row for each."""
        size = self.filters.shape[2]
        # The variance of every patch, from means over windows: no patch is cut out.
        mean, square = (
            functional.avg_pool2d(values.mean(dim=1, keepdim=True), size, stride=1)
            for values in (images, images.square())
        )
        contrast = ((square - mean.square()).clamp(min=0) + _LEAST_CONTRAST).sqrt()
        response = functional.conv2d(images, self.filters) / contrast - self.offset[:, None, None]
        # A patch and its negative are different things to see.
        seen = [functional.relu(sign * response - _THRESHOLD) for sign in (1, -1)]
        regions = [functional.adaptive_avg_pool2d(part, _REGIONS).flatten(1) for part in seen]
        # The root: twice the area does not tell twice as much.
        return torch.cat(regions, dim=1).sqrt()


def patch_features(inputs: Inputs, world: World, *, mirrored: bool, seed: int) -> Tensor:
    """Return features of all images, on every rank; their patches are learned first.

    With `mirrored`, each image is described by its mean with its mirror image: for images that mean
    the same when they are mirrored. Equal seeds give equal features.
    """
    patches = learn_patches(inputs, world, seed)
    parts = torch.split(world.shard(torch.arange(len(inputs))), _BATCH)
    mode: ProgressMode = "auto" if world.rank == 0 else False
    features = []
    with Progress(mode, "patches", len(parts)) as bar, torch.no_grad():
        for part in parts:
            images = _prepared(inputs.take(part).to(world.device))
            own = patches.features(images)
            features.append((own + patches.features(images.flip(3))) / 2 if mirrored else own)
            bar.advance()
    return world.all_gather(torch.cat(features), len(inputs))


def learn_patches(inputs: Inputs, world: World, seed: int) -> Patches:
    """Return the typical patches of random images among `inputs`; the same on every rank."""
    generator = generator_for(seed, "patches")
    chosen = torch.randperm(len(inputs), generator=generator)[: _PATCHES // _PER_IMAGE]
    images = torch.cat([_prepared(inputs.take(part).cpu()) for part in torch.split(chosen, _BATCH)])
    cut = _random_patches(images, generator)
    shape = cut.shape[1:]
    flat = cut.flatten(1)
    flat = flat - flat.mean(dim=1, keepdim=True)
    flat = flat / (flat.square().mean(dim=1, keepdim=True) + _LEAST_CONTRAST).sqrt()
    mean = flat.mean(dim=0)
    whitening = _whitening(flat - mean)
    kinds = _typical((flat - mean) @ whitening, generator) @ whitening
    # Centred: the mean of a patch then has no effect, and need not be subtracted.
    kinds = kinds - kinds.mean(dim=1, keepdim=True)
    # Of rank 0: processors may round differently.
    filters, offset = (world.broadcast(part).to(world.device) for part in (kinds, kinds @ mean))
    return Patches(filters.reshape(-1, *shape), offset)


def _prepared(images: Tensor) -> Tensor:
    """Return images as floats from 0 to 1, large ones scaled down."""
    values = images.float() / 255
    shorter = min(values.shape[2:])
    if shorter <= _SIDE:
        return values
    sides = [round(side * _SIDE / shorter) for side in values.shape[2:]]
    return functional.interpolate(values, sides, mode="area")


def _random_patches(images: Tensor, generator: torch.Generator) -> Tensor:
    """Return patches from random places ``(patches, channels, side, side)``."""
    # Of tiny images, patches still have several places.
    size = max(1, min(_SIZE, min(images.shape[2:]) // 2))
    windows = images.unfold(2, size, 1).unfold(3, size, 1)
    image = torch.arange(len(images)).repeat_interleave(_PER_IMAGE)
    top, left = (
        integers_below(torch.full(image.shape, windows.shape[axis]), generator) for axis in (2, 3)
    )
    return windows[image, :, top, left]


def _whitening(patches: Tensor) -> Tensor:
    """Return the symmetric matrix after which centred patches have nearly equal variances."""
    variances, directions = torch.linalg.eigh(patches.T @ patches / len(patches))
    scale = (variances.clamp(min=0) + _LEAST_VARIANCE).rsqrt()
    return Tensor((directions * scale) @ directions.T)


def _typical(patches: Tensor, generator: torch.Generator) -> Tensor:
    """Return directions of length 1 that patches lie along, by spherical k-means."""
    draws = torch.randn((min(_KINDS, len(patches)), patches.shape[1]), generator=generator)
    kinds = functional.normalize(draws, dim=1)
    for _ in range(_ROUNDS):
        along = patches @ kinds.T
        nearest = along.abs().argmax(dim=1, keepdim=True)
        own = torch.zeros_like(along).scatter_(1, nearest, along.gather(1, nearest))
        # A kind keeps a share of its old direction, and one that is nearest to none all of it.
        kinds = functional.normalize(kinds + own.T @ patches, dim=1)
    return kinds
