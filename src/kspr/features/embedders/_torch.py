"""What the torch families share: devices, precision, images as tensors."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from kspr._packages import require
from kspr.errors import InputError

__all__ = ["Pixels", "Runner", "torch_for"]

_CPU_CHUNK = 8
"""Images at a time in each thread of a CPU. Threads that share one image wait for each other at
every layer, which costs six times the speed on a busy machine; and larger pieces leave the cache.
"""


def torch_for(name: str) -> Any:
    """Return torch, which `name` needs."""
    return require("torch", f"The embedder {name}", "torch")


@dataclass(frozen=True)
class Runner:
    """Run a model on a device, without gradients, in half precision where that helps."""

    torch: Any
    device: str
    half: bool

    def __call__(self, run: Callable[[Any], Any], batch: Any) -> np.ndarray:
        """Return ``run(batch)`` as float32 numbers."""
        try:
            with self.torch.inference_mode(), self._precision():
                return np.asarray(run(batch).float().cpu().numpy())
        except self.torch.OutOfMemoryError as error:
            raise InputError(
                f"{self.device} ran out of memory; choose a smaller batch size."
            ) from error

    def images(self, model: Callable[[Any], Any], batch: Any) -> np.ndarray:
        """Return ``model(batch)``, in pieces that suit the device."""
        if self.device != "cpu":
            return self(model, batch.to(self.device))
        threads = self.torch.get_num_threads()
        one_each = self.torch.set_num_threads
        try:
            with ThreadPoolExecutor(threads, initializer=one_each, initargs=(1,)) as pool:
                pieces = list(pool.map(partial(self, model), batch.split(_CPU_CHUNK)))
        finally:
            # New threads of the caller's own would otherwise inherit the one.
            self.torch.set_num_threads(threads)
        return np.concatenate(pieces)

    def _precision(self) -> Any:
        kind = self.device.partition(":")[0]
        dtype = self.torch.bfloat16 if kind == "cpu" else self.torch.float16
        # Without instructions for bfloat16 a CPU is slower in it than in float32.
        helps = kind != "cpu" or self.torch.ops.mkldnn._is_mkldnn_bf16_supported()
        return self.torch.autocast(kind, dtype=dtype, enabled=self.half and bool(helps))


@dataclass(frozen=True)
class Pixels:
    """Scale an image to a square, whole, and normalise a batch of them."""

    size: int
    mean: Sequence[float]
    std: Sequence[float]
    """Both in units of 0 to 1."""

    def prepare(self, image: Any) -> np.ndarray:
        """Return ``(size, size, 3)`` bytes."""
        from PIL import Image

        if image.size != (self.size, self.size):
            image = image.resize((self.size, self.size), Image.Resampling.BICUBIC)
        return np.asarray(image)

    def batch(self, torch: Any, prepared: list[np.ndarray]) -> Any:
        """Return ``(batch, 3, size, size)`` floats."""
        bytes_ = torch.from_numpy(np.stack(prepared)).permute(0, 3, 1, 2)
        mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (self.mean, self.std))
        return (bytes_.float() / 255 - mean) / std
