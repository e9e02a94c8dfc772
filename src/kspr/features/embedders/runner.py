"""Where and how networks compute features: device, precision, threads, PyTorch or ONNX Runtime."""

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np

from kspr._packages import is_installed, require, version
from kspr.errors import InputError
from kspr.features.embedders.embedder import Embedder, EmbedderRequest, PendingBatch, Pixels
from kspr.features.embedders.onnx_runtime import Arrays, Run, onnx_run
from kspr.models.device import is_cpu, pick_device, use_bfloat16

_CPU_IMAGES = 8
"""Images at a time in each thread of a CPU. Threads that share one image wait for each other at
every layer, which costs six times the speed on a busy machine; and larger pieces leave the cache.
"""
AHEAD = 4
"""Batches that a network may have before it at a time. No thread of it waits for another at the end
of a batch, nor while the next is made or a shard is written.
"""
_WORTH_EXPORTING = 2048
"""Items from which ONNX Runtime is used. Exporting takes as long as embedding about this many."""


class Runner:
    """Run a model on a device, without gradients, in half precision if that was asked for."""

    def __init__(self, request: EmbedderRequest) -> None:
        """Take a request; raise if its device or precision does not work."""
        self.name, self._device = request.name, request.settings.device
        if not is_installed("torch"):
            # Said now, and not when the first batch finds no export.
            _ = self.torch
        # A missing device is reported now, too.
        cpu, wanted = self.on_cpu, request.settings.half
        # Without instructions for bfloat16 a CPU is slower in it than in float32. A processor that
        # announces them may still not have them, so that announcement is tested.
        self.half = wanted and (
            not cpu
            or (
                bool(self.torch.ops.mkldnn._is_mkldnn_bf16_supported())
                and use_bfloat16(self.device, strict=request.settings.strict)
            )
        )
        self.exports = cpu and not self.half and request.rows >= _WORTH_EXPORTING
        """Whether networks are exported for ONNX Runtime, if they can be."""

    @cached_property
    def torch(self) -> Any:
        """The package, imported when it is first needed: that takes a second."""
        return require("torch", f"The embedder {self.name}", "torch")

    @cached_property
    def device(self) -> Any:
        """The ``torch.device``."""
        _ = self.torch
        return pick_device(self._device)

    @cached_property
    def on_cpu(self) -> bool:
        """Whether the device is a CPU."""
        return is_cpu(self._device) or bool(self.device.type == "cpu")

    @property
    def cores(self) -> int:
        """How many threads may compute: as many as torch would use."""
        if "torch" in sys.modules:
            return int(self.torch.get_num_threads())
        asked = os.environ.get("OMP_NUM_THREADS", "")
        if asked.isdigit() and int(asked):
            return int(asked)
        # A container or a scheduler may allow few.
        return (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )

    def __call__(self, run: Callable[[Any], Any], batch: Any) -> np.ndarray:
        """Return ``run(batch)`` as float32 numbers."""
        dtype = self.torch.bfloat16 if self.on_cpu else self.torch.float16
        autocast = self.torch.autocast(self.device.type, dtype=dtype, enabled=self.half)
        try:
            with self.torch.inference_mode(), autocast:
                return np.asarray(run(batch).float().cpu().numpy())
        except self.torch.OutOfMemoryError as error:
            raise InputError(
                f"{self.device} ran out of memory; choose a smaller batch size."
            ) from error


class Network:
    """A module that maps named arrays to features, run in pieces by the engine that suits it."""

    def __init__(
        self, runner: Runner, build: Callable[[], Any], identity: str | None = None
    ) -> None:
        """Take the function that returns the module, and what determines it: see `onnx_run`."""
        self._runner, self._build, self._identity = runner, build, identity
        self._onnx: Run | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._decided = not runner.exports
        if self._decided or identity is None:
            # What is wrong with its weights is said before anything is embedded.
            _ = self._module

    @cached_property
    def _module(self) -> Any:
        # Built late: with an export, nothing needs it, and transformers take seconds to load.
        return self._build().to(self._runner.device).eval()

    @property
    def engine(self) -> str:
        """What computes the features, with its version; decided by the first batch."""
        package = "torch" if self._onnx is None else "onnxruntime"
        return f"{package} {version(package)}"

    def begin(self, pieces: list[Arrays]) -> PendingBatch:
        """Begin to compute the features of all pieces, which are returned one after the other.

        ONNX Runtime computes in threads of its own; PyTorch while it is waited for.
        """
        if not self._decided:
            self._onnx = onnx_run(
                self._runner.name, lambda: self._module, pieces[0], self._torch, self._identity
            )
            self._decided = True
        if self._onnx is None:
            return PendingBatch(lambda: self._all_by_torch(pieces))
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._runner.cores, "kspr-network")
        futures = [self._pool.submit(self._onnx, piece) for piece in pieces]
        return PendingBatch(
            lambda: np.concatenate([future.result() for future in futures]),
            lambda: [future.cancel() for future in futures],
        )

    def _all_by_torch(self, pieces: list[Arrays]) -> np.ndarray:
        if not self._runner.on_cpu:
            return np.concatenate([self._torch(piece) for piece in pieces])
        threads, one_each = self._runner.cores, self._runner.torch.set_num_threads
        try:
            # OpenMP keeps this number for each calling thread: every thread of the pool sets it.
            with ThreadPoolExecutor(threads, initializer=one_each, initargs=(1,)) as pool:
                return np.concatenate(list(pool.map(self._torch, pieces)))
        finally:
            # New threads of the caller's own would otherwise inherit the one.
            one_each(threads)

    def _torch(self, piece: Arrays) -> np.ndarray:
        torch, device = self._runner.torch, self._runner.device
        tensors = {name: torch.from_numpy(array).to(device) for name, array in piece.items()}
        return self._runner(self._module, tensors)

    def images(
        self,
        name: str,
        prepare: Callable[[Any], np.ndarray],
        size: int | None,
        dimensions: int | None = None,
    ) -> Embedder:
        """Return an embedder of images, which the module takes under `name`."""

        def start(images: list[np.ndarray]) -> PendingBatch:
            step = _CPU_IMAGES if self._runner.on_cpu else len(images)
            starts = range(0, len(images), step)
            return self.begin([{name: np.stack(images[at : at + step])} for at in starts])

        return Embedder(
            *(self._runner.name, "image", start, prepare, size, dimensions),
            engine=lambda: self.engine,
            ahead=AHEAD,
        )


def from_pixels(
    build: Callable[[], Any],
    pixels: Pixels,
    runner: Runner,
    dimensions: int | None = None,
    identity: str | None = None,
) -> Embedder:
    """Return an embedder of the network of `build`, which maps a batch of images to rows.

    `identity` is what determines the network, if that is known without it: see `onnx_run`.
    """

    def module() -> Any:
        from kspr.features.embedders.modules import FromPixels

        return FromPixels(build(), pixels.mean, pixels.std)

    network = Network(runner, module, identity)
    return network.images("pixels", pixels.prepare, pixels.size, dimensions)
