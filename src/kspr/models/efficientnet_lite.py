"""EfficientNet-Lite0, Lite1 and Lite2 up to their pooled features (Tan and Le, 2019).

They are built from the published weights, with batch normalisation folded into the convolutions:
for features only, not for training.
"""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

__all__ = ["EfficientNetLite"]

_STAGES = ((1, 1), (2, 6), (2, 6), (2, 6), (1, 6), (2, 6), (1, 6))
"""Per stage: stride of the first block, expansion; the weights hold the other sizes."""
_BLOCKS = {
    "lite0": (1, 2, 2, 3, 3, 4, 1),
    "lite1": (1, 3, 3, 4, 4, 5, 1),
    "lite2": (1, 3, 3, 4, 4, 5, 1),
}
"""Blocks per stage. Lite2 has as many as Lite1, with more channels."""
_EPSILON = 1e-3
"""Epsilon of batch normalisation with which the weights were trained."""


class EfficientNetLite(nn.Module):
    """The network of one variant, from images ``(n, 3, h, w)`` to 1280 features each."""

    def __init__(self, variant: str, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        shapes = enumerate(_block_shapes(_BLOCKS[variant]))
        self.stem = _folded(weights, "_conv_stem", "_bn0", 2)
        self.blocks = nn.ModuleList(
            _block(weights, number, stride, expansion) for number, (stride, expansion) in shapes
        )
        self.head = _folded(weights, "_conv_head", "_bn1", 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return one row of features per image."""
        x = self.stem(x)
        for block in self.blocks:
            y = block(x)
            # Blocks that keep the shape add their input to their output.
            x = y.add_(x) if y.shape == x.shape else y
        pooled: Tensor = self.head(x).mean((2, 3))
        return pooled


class _Convolution(nn.Module):
    def __init__(self, weight: Tensor, bias: Tensor, stride: int, rectified: bool) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.register_buffer("bias", bias)
        self.stride, self.rectified = stride, rectified

    def forward(self, x: Tensor) -> Tensor:
        weight = self.get_buffer("weight")
        # TensorFlow's "same": an odd pixel of padding goes to the bottom and the right.
        (top, bottom), (left, right) = (
            _padding(side, weight.shape[-1], self.stride) for side in x.shape[-2:]
        )
        # conv2d pads opposite sides alike, so uneven padding is added before.
        if (top, left) != (bottom, right):
            x = nn.functional.pad(x, (left, right, top, bottom))
            top = left = 0
        # Depthwise weights have one input channel, and so as many groups as channels.
        groups = x.shape[1] // weight.shape[1]
        bias = self.get_buffer("bias")
        x = torch.conv2d(x, weight, bias, self.stride, (top, left), groups=groups)
        # ReLU6: the Lite models are made for 8-bit arithmetic.
        return x.clamp_(0, 6) if self.rectified else x


def _block(
    weights: Mapping[str, Tensor], number: int, stride: int, expansion: int
) -> nn.Sequential:
    at = f"_blocks.{number}."
    expand = [_folded(weights, f"{at}_expand_conv", f"{at}_bn0", 1)] if expansion > 1 else []
    return nn.Sequential(
        *expand,
        _folded(weights, f"{at}_depthwise_conv", f"{at}_bn1", stride),
        _folded(weights, f"{at}_project_conv", f"{at}_bn2", 1, rectified=False),
    )


def _folded(
    weights: Mapping[str, Tensor], name: str, norm: str, stride: int, *, rectified: bool = True
) -> _Convolution:
    """Return a convolution with its batch normalisation folded in."""
    mean, var, gain, shift = (
        weights[f"{norm}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")
    )
    # gain (x - mean) / sqrt(var + epsilon) + shift is linear in x: one factor and one bias.
    scale = gain / (var + _EPSILON).sqrt()
    weight = weights[f"{name}.weight"] * scale.view(-1, 1, 1, 1)
    return _Convolution(weight, shift - mean * scale, stride, rectified)


def _block_shapes(blocks: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Yield the stride and the expansion of each block."""
    for count, (stride, expansion) in zip(blocks, _STAGES, strict=True):
        yield stride, expansion
        yield from ((1, expansion) for _ in range(count - 1))


def _padding(size: int, kernel: int, stride: int) -> tuple[int, int]:
    # The output has size / stride positions, rounded up: this much is missing at the edges.
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2
