"""What all embedders share: the value they return, the request, precision, images as tensors.

Nothing here imports torch; the functions that need it get it as an argument.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from kspr._packages import require
from kspr.errors import InputError
from kspr.models.device import pick_device, use_bfloat16

__all__ = ["Embedder", "EmbedderRequest", "Family", "Kind", "Pixels", "Runner", "as_is"]

Kind = Literal["image", "text"]

_CPU_CHUNK = 8
"""Images at a time in each thread of a CPU. Threads that share one image wait for each other at
every layer, which costs six times the speed on a busy machine; and larger pieces leave the cache.
"""


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
class Runner:
    """Run a model on a device, without gradients, in half precision if that was asked for."""

    torch: Any
    device: Any
    """A ``torch.device``."""
    half: bool

    @classmethod
    def of(cls, request: EmbedderRequest) -> "Runner":
        """Return the runner for a request; torch is imported here."""
        torch = require("torch", f"The embedder {request.name}", "torch")
        device = pick_device(request.device)
        return cls(torch, device, request.half and _half_helps(torch, device, request.strict))

    def __call__(self, run: Callable[[Any], Any], batch: Any) -> np.ndarray:
        """Return ``run(batch)`` as float32 numbers."""
        kind = self.device.type
        dtype = self.torch.bfloat16 if kind == "cpu" else self.torch.float16
        autocast = self.torch.autocast(kind, dtype=dtype, enabled=self.half)
        try:
            with self.torch.inference_mode(), autocast:
                return np.asarray(run(batch).float().cpu().numpy())
        except self.torch.OutOfMemoryError as error:
            raise InputError(
                f"{self.device} ran out of memory; choose a smaller batch size."
            ) from error

    def images(self, model: Callable[[Any], Any], batch: Any) -> np.ndarray:
        """Return ``model(batch)``, computed in pieces of a size that suits the device."""
        if self.device.type != "cpu":
            return self(model, batch.to(self.device))
        threads = self.torch.get_num_threads()
        one_each = self.torch.set_num_threads
        try:
            # OpenMP keeps this number for each calling thread: every thread of the pool sets it.
            with ThreadPoolExecutor(threads, initializer=one_each, initargs=(1,)) as pool:
                pieces = list(pool.map(partial(self, model), batch.split(_CPU_CHUNK)))
        finally:
            # New threads of the caller's own would otherwise inherit the one.
            self.torch.set_num_threads(threads)
        return np.concatenate(pieces)


def _half_helps(torch: Any, device: Any, strict: bool) -> bool:
    """Return whether half precision is faster on `device`, and works."""
    if device.type != "cpu":
        return True
    # Without instructions for bfloat16 a CPU is slower in it than in float32. A processor that
    # announces them may still not have them, so that announcement is tested.
    announced = bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return announced and use_bfloat16(device, strict=strict)


@dataclass(frozen=True)
class Pixels:
    """Scale images to a square, without cropping, and normalise batches of them."""

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

    def batch(self, torch: Any, prepared: list[np.ndarray]) -> Any:
        """Return prepared images as floats of shape ``(batch, 3, size, size)``."""
        bytes_ = torch.from_numpy(np.stack(prepared)).permute(0, 3, 1, 2)
        mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (self.mean, self.std))
        return (bytes_.float() / 255 - mean) / std
