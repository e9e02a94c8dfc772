"""Networks as modules that map named arrays to features: what PyTorch runs, and what is exported.

Everything after decoding and tokenising is inside, so that both engines get the same arrays.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

Inputs = dict[str, Tensor]
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


class FromPixels(nn.Module):
    """Normalise images that are bytes ``(n, side, side, 3)``, then run a network on them."""

    def __init__(self, network: nn.Module, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.network = network
        # Per channel, in units of 0 to 1.
        self.register_buffer("mean", torch.tensor(mean).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor(std).view(1, 3, 1, 1))

    def forward(self, inputs: Inputs) -> Tensor:
        """Return the features of ``inputs["pixels"]``."""
        pixels = inputs["pixels"].permute(0, 3, 1, 2).float() / 255
        normal = (pixels - self.get_buffer("mean")) / self.get_buffer("std")
        features: Tensor = self.network(normal)
        return features


class FromProcessed(nn.Module):
    """Run a model of transformers on what its own processor made of images."""

    def __init__(self, model: Any, arguments: dict[str, Any]) -> None:
        super().__init__()
        self.model, self._arguments = model, arguments
        names = [name for name, _ in model.named_parameters()]
        self._has_class_token = any(n.endswith(("cls_token", "class_embedding")) for n in names)

    def forward(self, inputs: Inputs) -> Tensor:
        """Return the class token, or the mean over positions where there is none."""
        if hasattr(self.model, "get_image_features"):  # CLIP and similar models
            return _pooled(self.model.get_image_features(**inputs, **self._arguments))
        hidden: Tensor = self.model(**inputs, **self._arguments).last_hidden_state
        if hidden.ndim == 4:
            return hidden.mean((2, 3))
        # Not the pooler's output: many checkpoints lack its weights, and it would be random.
        return hidden[:, 0] if self._has_class_token else hidden.mean(1)


class FromTokens(nn.Module):
    """Run a model of transformers on tokens; `unit` scales features to length 1."""

    def __init__(self, model: Any, *, unit: bool) -> None:
        super().__init__()
        self.model, self._unit = model, unit

    def forward(self, inputs: Inputs) -> Tensor:
        """Return the mean over the tokens of each text."""
        if hasattr(self.model, "get_text_features"):  # CLIP and similar models
            return _pooled(self.model.get_text_features(**inputs))
        hidden = self.model(**inputs).last_hidden_state
        # In float32: a mean over many tokens loses digits in half precision.
        pooled = _masked_mean(hidden.float(), inputs["attention_mask"])
        return nn.functional.normalize(pooled) if self._unit else pooled


def _masked_mean(hidden: Tensor, mask: Tensor) -> Tensor:
    """Return the mean over the tokens that are not padding."""
    weight = mask.unsqueeze(-1).to(hidden.dtype)
    # A text without tokens has the mean 0, not nan, which would be refused.
    return (hidden * weight).sum(1) / weight.sum(1).clamp(min=1)


def _pooled(output: Any) -> Tensor:
    pooled: Tensor = output if hasattr(output, "shape") else output.pooler_output
    return pooled


class EfficientNetLite(nn.Module):
    """EfficientNet-Lite up to its pooled features (Tan and Le, 2019): 1280 for each image.

    Built from the published weights, with batch normalisation folded into the convolutions: for
    features only, not for training.
    """

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
