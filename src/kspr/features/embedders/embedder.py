"""The value that every family returns, and the check that every batch passes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from kspr.errors import InputError

__all__ = ["Embedder", "Kind", "Request", "as_is"]

Kind = Literal["image", "text"]


@dataclass(frozen=True)
class Request:
    """What the user asked of an embedder, apart from its name."""

    kind: Kind
    device: str = "auto"
    half: bool = False
    image_size: int | None = None


def as_is(item: Any) -> Any:
    """Return `item`: the preparation of embedders that take items as they come."""
    return item


@dataclass
class Embedder:
    """Turn a list of RGB images, or of strings, into a ``(batch, dimensions)`` float32 array.

    Each row depends on its own item only, whatever else is in the batch, up to float error.
    """

    name: str
    kind: Kind
    compute: Callable[[list[Any]], Any]
    """Prepared items to an array; called from one thread."""
    prepare: Callable[[Any], Any] = as_is
    """One item to what `compute` takes; safe to call from several threads."""
    image_size: int | None = None
    """Pixels of the square that the model sees; None for text, and where the model decides."""
    dimensions: int | None = None
    """Known after the first batch at the latest."""

    def __call__(self, batch: Sequence[Any]) -> np.ndarray:
        """Return the features of a batch of items."""
        return self.embed([self.prepare(item) for item in batch])

    def embed(self, prepared: list[Any]) -> np.ndarray:
        """Return the features of items that went through `prepare` already."""
        features = _as_numbers(self.name, self.compute(prepared))
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


def _as_numbers(name: str, result: Any) -> np.ndarray:
    if hasattr(result, "detach"):  # a torch tensor, wherever it lives and whatever its precision
        result = result.detach().float().cpu().numpy()
    try:
        return np.asarray(result, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{name} must return an array of numbers, one row per item: got "
            f"{type(result).__name__} ({error})."
        ) from error
