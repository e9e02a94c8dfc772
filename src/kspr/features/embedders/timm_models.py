"""``timm:NAME`` or ``timm:NAME@weights.pth``: a model of timm."""

from typing import Any

from kspr._packages import require
from kspr.errors import InputError
from kspr.features.embedders._backbones import backbone, fill, identity, split
from kspr.features.embedders._torch import torch_for
from kspr.features.embedders.embedder import Embedder, Request

__all__ = ["identity", "load"]


def load(name: str, rest: str, request: Request) -> Embedder:
    """Return the model's pooled features, at its own image size unless another is asked for."""
    timm = require("timm", f"The embedder {name}", "timm")
    torch = torch_for(name)
    model_name, weights = split(rest)
    model = _create(timm, name, model_name, request.image_size, pretrained=weights is None)
    config = require("timm.data", f"The embedder {name}", "timm").resolve_model_data_config(model)
    if weights is not None:
        fill(model, weights, head=getattr(model, "pretrained_cfg", {}).get("classifier"))
    size = request.image_size or int(config["input_size"][-1])
    return backbone(name, model, torch, request, size=size, mean=config["mean"], std=config["std"])


def _create(timm: Any, name: str, model_name: str, size: int | None, *, pretrained: bool) -> Any:
    options = {"pretrained": pretrained, "num_classes": 0}
    try:
        if size is not None:
            try:
                # Transformers must know the size; convolutional networks do not take it.
                return timm.create_model(model_name, img_size=size, **options)
            except TypeError:
                pass
        return timm.create_model(model_name, **options)
    except (RuntimeError, OSError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise InputError(f"{name} cannot be loaded by timm: {reason}") from error
