"""What all embedders share: the value they return, the request, and how images are scaled."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from kspr.errors import InputError

__all__ = ["Embedder", "EmbedderRequest", "Family", "Kind", "Pixels", "as_is", "both_ways"]

Kind = Literal["image", "text"]


@dataclass(frozen=True)
class EmbedderRequest:
    """The arguments of one call of `load_embedder`."""

    name: str
    """Full name, such as ``minilm`` or ``timm:resnet18``."""
    rest: str
    """Part of the name after the colon; the whole name for a function of the user's own."""
    kind: Kind
    device: str = "auto"
    half: bool = False
    image_size: int | None = None
    strict: bool = False
    rows: int = 0
    """Number of items that will be embedded; 0 if unknown."""


class Family(NamedTuple):
    """The two functions behind a name or prefix."""

    load: Callable[[EmbedderRequest], "Embedder"]
    identity: Callable[[str, int | None], dict[str, Any]]
    """Rest of the name and image size to what determines the features; imports nothing heavy."""


def as_is(item: Any) -> Any:
    """Return `item` unchanged: the preparation of embedders that need none."""
    return item


@dataclass
class Embedder:
    """Turn a list of RGB images, or of strings, into a ``(batch, dimensions)`` float32 array.

    Each row depends on its own item only, not on the rest of the batch, up to float error.
    """

    name: str
    kind: Kind
    compute: Callable[[list[Any]], Any]
    """Function from prepared items to an array; called from one thread."""
    prepare: Callable[[Any], Any] = as_is
    """Function from one item to an input of `compute`; safe to call from several threads."""
    image_size: int | None = None
    """Side in pixels of the model's input; None for text, and where the model decides."""
    dimensions: int | None = None
    """Number of features; known after the first batch at the latest."""
    engine: Callable[[], str] = lambda: ""
    """Function that returns what computed the features, with its version; empty if unknown."""

    def __call__(self, batch: Sequence[Any]) -> np.ndarray:
        """Return the features of a batch of items."""
        return self.embed([self.prepare(item) for item in batch])

    def embed(self, prepared: list[Any]) -> np.ndarray:
        """Return the features of items that `prepare` was applied to."""
        features = _as_numbers(self.name, self.compute(prepared))
        # Functions of users return anything; wrong shapes would only show when all is computed.
        self._check_shape(features.shape, len(prepared))
        self.dimensions = features.shape[1]
        if not np.isfinite(features).all():
            row = int(np.flatnonzero(~np.isfinite(features).all(axis=1))[0])
            raise InputError(
                f"{self.name} returned NaN or infinity for item {row} of a batch of "
                f"{len(prepared)}; features must be finite."
            )
        return features

    def _check_shape(self, shape: tuple[int, ...], rows: int) -> None:
        if len(shape) != 2 or shape[0] != rows or shape[1] == 0:
            raise InputError(
                f"{self.name} must return one row of features per item: a batch of {rows} gave "
                f"an array of shape {shape}."
            )
        if self.dimensions not in (None, shape[1]):
            raise InputError(
                f"{self.name} must return {self.dimensions} features per item, got {shape[1]}."
            )


def both_ways(embedder: Embedder) -> Embedder:
    """Return an embedder of images that averages each image and its mirror image."""

    def prepare(image: Any) -> tuple[Any, Any]:
        from PIL import ImageOps

        return embedder.prepare(image), embedder.prepare(ImageOps.mirror(image))

    def compute(pairs: list[tuple[Any, Any]]) -> np.ndarray:
        as_given, mirrored = (list(side) for side in zip(*pairs, strict=True))
        mean: np.ndarray = (embedder.embed(as_given) + embedder.embed(mirrored)) / 2
        return mean

    return replace(embedder, prepare=prepare, compute=compute)


def _as_numbers(name: str, result: Any) -> np.ndarray:
    if hasattr(result, "detach"):  # a torch tensor, on any device and in any precision
        # float() first: NumPy has no bfloat16.
        result = result.detach().float().cpu().numpy()
    try:
        return np.asarray(result, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{name} must return an array of numbers, one row per item: got "
            f"{type(result).__name__} ({error})."
        ) from error


@dataclass(frozen=True)
class Pixels:
    """How images become the pixels of a network: scaled to a square, without cropping."""

    size: int
    """Side in pixels."""
    mean: Sequence[float]
    """Per channel, in units of 0 to 1."""
    std: Sequence[float]
    """Per channel, in units of 0 to 1."""

    def prepare(self, image: Any) -> np.ndarray:
        """Return an image as bytes of shape ``(size, size, 3)``."""
        from PIL import Image

        if image.size != (self.size, self.size):
            image = image.resize((self.size, self.size), Image.Resampling.BICUBIC)
        # Bytes until the batch is made: floats would take four times the memory while they wait.
        return np.asarray(image)
