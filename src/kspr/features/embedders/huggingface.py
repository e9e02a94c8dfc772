"""Texts through a transformers model: masked mean of its last layer."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kspr._packages import require
from kspr.features.embedders._torch import Runner, torch_for
from kspr.features.embedders.embedder import Embedder, Request
from kspr.models.device import pick_device
from kspr.models.huggingface import from_pretrained
from kspr.models.weights import local_state

__all__ = [
    "identity",
    "load",
    "masked_mean",
    "text_computer",
]

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


def identity(rest: str, image_size: int | None) -> dict[str, Any]:
    """Return the image size asked for, and the state of a local folder."""
    return {"image_size": image_size, "origin": local_state(Path(rest))}


def load(name: str, rest: str, request: Request) -> Embedder:
    """Return an embedder for images or for texts, as the request says."""
    require("transformers", f"The embedder {name}", "transformers")
    torch = torch_for(name)
    runner = Runner(torch, pick_device(torch, request.device), request.half)
    model = from_pretrained(name, "AutoModel", rest).to(runner.device).eval()
    if request.kind == "text":
        tokenizer = from_pretrained(name, "AutoTokenizer", rest)
        return Embedder(name, "text", text_computer(model, tokenizer, runner))
    processor = from_pretrained(name, "AutoImageProcessor", rest)
    images = _Images(model, processor, runner, request.image_size)
    return Embedder(name, "image", images.compute, images.prepare, images.size)


class _Images:
    def __init__(self, model: Any, processor: Any, runner: Runner, size: int | None) -> None:
        self._model, self._processor, self._runner = model, processor, runner
        self._options: dict[str, Any] = {}
        self._arguments: dict[str, Any] = {}
        if size is not None:
            self._options = {"size": {"height": size, "width": size}, "do_center_crop": False}
            if "interpolate_pos_encoding" in inspect.signature(model.forward).parameters:
                self._arguments = {"interpolate_pos_encoding": True}
        self.size = size or _own_size(processor)
        names = [name for name, _ in model.named_parameters()]
        self._has_class_token = any(n.endswith(("cls_token", "class_embedding")) for n in names)

    def prepare(self, image: Any) -> Any:
        made = self._processor(images=image, return_tensors="pt", **self._options)
        return made["pixel_values"][0]

    def compute(self, prepared: list[Any]) -> np.ndarray:
        batch = self._runner.torch.stack(prepared)
        return self._runner.images(self._features, batch)

    def _features(self, batch: Any) -> Any:
        if hasattr(self._model, "get_image_features"):  # CLIP and its kin
            output = self._model.get_image_features(pixel_values=batch, **self._arguments)
            return output if hasattr(output, "shape") else output.pooler_output
        hidden = self._model(pixel_values=batch, **self._arguments).last_hidden_state
        if hidden.ndim == 4:
            return hidden.mean((2, 3))
        # Not the pooler's output: many checkpoints lack its weights, and it would be random.
        return hidden[:, 0] if self._has_class_token else hidden.mean(1)


def _own_size(processor: Any) -> int | None:
    """Return the pixels that a processor scales or crops to, where it says."""
    crop = getattr(processor, "crop_size", None) if _crops(processor) else None
    size = dict(crop or getattr(processor, "size", None) or {})
    found = size.get("height") or size.get("shortest_edge")
    return None if found is None else int(found)


def _crops(processor: Any) -> bool:
    return bool(getattr(processor, "do_center_crop", False))
