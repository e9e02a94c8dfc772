"""``hf:NAME``: a model of the Hugging Face hub, or of a local folder, through transformers."""

import importlib
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from kspr.data.embedders._embedder import Embedder, Request
from kspr.data.embedders._packages import check_source, local_state, require
from kspr.data.embedders._text import text_computer
from kspr.data.embedders._torch import Runner, pick_device, torch_for
from kspr.errors import InputError

__all__ = ["from_pretrained", "identity", "load", "quiet"]


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


def from_pretrained(name: str, auto: str, source: str, **options: Any) -> Any:
    """Return what the class `auto` of transformers makes of `source`; never runs code from it."""
    transformers = require("transformers", f"The embedder {name}", "transformers")
    check_source(name, source)
    try:
        with quiet():
            loader = getattr(transformers, auto)
            return loader.from_pretrained(source, trust_remote_code=False, **options)
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise InputError(f"{name} cannot be loaded by transformers' {auto}: {reason}") from error


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers' loading bars and notices about unused heads off the terminal."""
    log = importlib.import_module("transformers.utils.logging")
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()


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
