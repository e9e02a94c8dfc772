"""Texts through a transformers model: masked mean of its last layer."""

from collections.abc import Callable
from typing import Any

import numpy as np

from kspr.data.embedders._torch import Runner

__all__ = ["masked_mean", "text_computer"]

_LONGEST = 512
"""Tokens, for models that do not say how many they can take."""


def masked_mean(hidden: Any, mask: Any) -> Any:
    """Return the mean over the tokens that are no padding."""
    weight = mask.unsqueeze(-1).to(hidden.dtype)
    return (hidden * weight).sum(1) / weight.sum(1).clamp(min=1)


def text_computer(
    model: Any, tokenizer: Any, runner: Runner, *, max_tokens: int | None = None, unit: bool = False
) -> Callable[[list[str]], np.ndarray]:
    """Return the function from texts to features; `unit` scales them to length 1."""
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    limit = max_tokens or _limit(model, tokenizer)

    def run(tokens: Any) -> Any:
        if hasattr(model, "get_text_features"):  # CLIP and its kin
            return _pooled(model.get_text_features(**tokens))
        hidden = model(**tokens).last_hidden_state
        pooled = masked_mean(hidden.float(), tokens["attention_mask"])
        return runner.torch.nn.functional.normalize(pooled) if unit else pooled

    def compute(texts: list[str]) -> np.ndarray:
        tokens = tokenizer(
            texts, padding=True, truncation=True, max_length=limit, return_tensors="pt"
        ).to(runner.device)
        return runner(run, tokens)

    return compute


def _limit(model: Any, tokenizer: Any) -> int:
    positions = getattr(model.config, "max_position_embeddings", None) or _LONGEST
    # A tokenizer without a limit of its own names a number beyond any model.
    return int(min(tokenizer.model_max_length, positions))


def _pooled(output: Any) -> Any:
    return output if hasattr(output, "shape") else output.pooler_output
