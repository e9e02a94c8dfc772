"""Networks as modules that map named arrays to features: what PyTorch runs, and what is exported.

Everything after decoding and tokenising is inside, so that both engines get the same arrays.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["FromPixels", "FromProcessed", "FromTokens"]

Inputs = dict[str, Tensor]


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
