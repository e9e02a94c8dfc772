"""Training data as rows that are taken by number, and how rows become batches of a network.

Vectors are float32 ``(n, d)``. Images are uint8 ``(n, channels, height, width)``; they become
floats on the device, where they are augmented.
"""

import hashlib
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from kspr.errors import InputError, UnreadableItemError
from kspr.sources.records import Items, decoded
from kspr.train.augment import crop_and_flip, normalise
from kspr.train.settings import TrainSettings
from kspr.train.world import beta, integers_below

_IN_MEMORY = 2 << 30
"""Bytes up to which decoded images are kept in memory."""
_SAMPLE = 1000
"""Rows that stand for all where each must be loaded to be seen."""


class Inputs(Protocol):
    """Rows that can be taken by number."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one row: ``(d,)`` or ``(channels, height, width)``."""

    def __len__(self) -> int: ...

    def take(self, index: Tensor) -> Tensor:
        """Return the rows `index` as a batch."""


class _Held:
    """Rows in memory."""

    def __init__(self, values: Tensor) -> None:
        self.values = values

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one row."""
        return tuple(self.values.shape[1:])

    def __len__(self) -> int:
        return len(self.values)

    def take(self, index: Tensor) -> Tensor:
        """Return the rows `index`, on the device that holds them."""
        return self.values[index.to(self.values.device)]


class Vectors(_Held):
    """Embeddings in memory, float32."""

    def __init__(self, values: Any) -> None:
        # The layers compute in float32 anyway; float64 would take twice the memory.
        values = torch.as_tensor(_writable(values)).to(torch.float32)
        if values.ndim != 2 or values.shape[1] == 0:
            raise InputError(f"Vectors must have two dimensions, got shape {tuple(values.shape)}.")
        bad = torch.nonzero(~torch.isfinite(values).all(dim=1))
        if len(bad):
            raise InputError(
                f"X holds NaN or inf in {len(bad)} rows, the first is row {int(bad[0])}. Drop "
                "these rows or fill them in."
            )
        super().__init__(values)


class Images(_Held):
    """Images in memory, uint8, channels first."""

    def __init__(self, values: Any) -> None:
        values = torch.as_tensor(_writable(values))
        if values.dtype != torch.uint8 or values.ndim != 4 or values.shape[1] not in (1, 3):
            raise InputError(
                "Images must be uint8 of shape (n, channels, height, width) with 1 or 3 channels, "
                f"got {values.dtype} of shape {tuple(values.shape)}."
            )
        super().__init__(values.contiguous())


class LazyImages:
    """Images that are decoded and scaled to one size each time they are taken."""

    def __init__(self, items: Items, rows: np.ndarray, size: int) -> None:
        self._items, self._rows, self._size = items, rows, size

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one row."""
        return (3, self._size, self._size)

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, index: Tensor) -> Tensor:
        """Return the rows `index`, decoded; raise `UnreadableItemError` if one cannot be."""
        rows = self._rows[index.cpu().numpy()]
        out = torch.empty((len(rows), *self.shape), dtype=torch.uint8)
        prepare = scaled_to(self._size)
        stream = decoded(self._items, rows.tolist(), prepare, ahead=len(rows))
        for position, item in enumerate(stream):
            if item.reason is not None:
                raise UnreadableItemError(item.reason)
            out[position] = torch.from_numpy(item.value)
        return out


def as_inputs(X: Any, settings_input: str) -> Inputs:
    """Return `X` as inputs for ``"embeddings"`` or ``"images"``, as `settings_input` says."""
    # NumPy arrays have take and shape too; an object of the user's own has no dtype.
    if hasattr(X, "take") and hasattr(X, "shape") and not hasattr(X, "dtype"):
        inputs: Inputs = X
    elif settings_input == "embeddings":
        inputs = Vectors(X)
    else:
        inputs = Images(_channels_first(X))
    expected = 1 if settings_input == "embeddings" else 3
    if len(inputs.shape) != expected:
        raise InputError(
            f"X has rows of shape {inputs.shape}, but input is {settings_input!r}, which needs "
            f"{expected} dimension{'s' * (expected > 1)} a row. Choose another preset, or "
            "input='embeddings' or input='images'."
        )
    return inputs


def content_digest(inputs: Inputs) -> str:
    """Return a digest of all rows in memory, or of a thousand of rows that are loaded on demand.

    The rows of the sample are evenly spaced: other features differ in every row.
    """
    rows = torch.arange(len(inputs))
    if not isinstance(inputs, _Held) and len(rows) > _SAMPLE:
        rows = torch.linspace(0, len(inputs) - 1, _SAMPLE).long()
    digest = hashlib.sha256()
    for part in torch.split(rows, 256):
        values = inputs.take(part).detach().cpu().contiguous()
        # As bytes: NumPy has no bfloat16, in which an object of the user's own may hold its rows.
        digest.update(values.view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]


def image_inputs(items: Items, size: int | None) -> tuple[Inputs, np.ndarray, dict[int, str]]:
    """Return the images of `items`, the row numbers that could be decoded, and the other reasons.

    `size` is the side in pixels; None for that of the first image. Images are kept in memory if
    they take at most 2 GiB, and otherwise decoded each time they are needed.
    """
    side = size or _own_size(items)
    rows, unreadable = np.arange(len(items)), dict[int, str]()
    # Decided before decoding: an array that does not fit must not be begun.
    held = len(items) * 3 * side * side <= _IN_MEMORY
    images = np.empty((len(items) if held else 0, 3, side, side), dtype=np.uint8)
    prepare = scaled_to(side)
    # Decoded once in either case, to know which images cannot be read.
    for item in decoded(items, rows.tolist(), prepare, ahead=64):
        if item.reason is not None:
            unreadable[item.row] = item.reason
        elif held:
            images[item.row] = item.value
    rows = np.delete(rows, list(unreadable))
    if not len(rows):
        raise UnreadableItemError(
            f"None of the {len(items)} images can be read; the first: "
            f"{next(iter(unreadable.values()), 'there are none')}"
        )
    if not held:
        return LazyImages(items, rows, side), rows, unreadable
    # Indexing copies up to 2 GiB: only if rows are left out.
    return Images(images if not unreadable else images[rows]), rows, unreadable


def scaled_to(side: int) -> Callable[[Any], np.ndarray]:
    """Return a function that scales a PIL image to uint8 ``(3, side, side)``."""

    def prepare(image: Any) -> np.ndarray:
        if image.size != (side, side):
            image = image.resize((side, side))
        return np.ascontiguousarray(np.asarray(image, dtype=np.uint8).transpose(2, 0, 1))

    return prepare


def _own_size(items: Items) -> int:
    """Return the shorter side in pixels of the first image that can be read."""
    for item in decoded(items, range(len(items)), lambda image: image, ahead=1):
        if item.reason is None:
            return int(min(item.value.size))
    raise UnreadableItemError(f"None of the {len(items)} images can be read.")


def _channels_first(X: Any) -> Any:
    """Return images as ``(n, channels, height, width)``; most files have the channels last."""
    # If either axis could be the channels, the first is taken, as torch has it.
    if getattr(X, "ndim", 0) == 4 and X.shape[-1] in (1, 3) and X.shape[1] not in (1, 3):
        return torch.as_tensor(_writable(X)).permute(0, 3, 1, 2)
    return X


def _writable(values: Any) -> Any:
    """Return an array that torch can share memory with; copy read-only and other types."""
    if isinstance(values, Tensor):
        return values
    array = np.asarray(values)
    if array.dtype == np.uint8:
        # torch warns of arrays that it could not write to.
        return array if array.flags.writeable else array.copy()
    if array.dtype.kind not in "fiub":
        raise InputError(f"X must hold numbers, got {array.dtype}.")
    return np.array(array, dtype=np.float32)


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
