"""``torchvision:NAME`` or ``torchvision:NAME@weights.pth``: a classifier without its last layer."""

from typing import Any

from kspr._packages import require
from kspr.errors import InputError
from kspr.features.embedders._backbones import backbone, fill, identity, split
from kspr.features.embedders._torch import torch_for
from kspr.features.embedders.embedder import Embedder, Request

__all__ = ["identity", "load"]

_SIZE = 224
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def load(name: str, rest: str, request: Request) -> Embedder:
    """Return what the model's last linear layer sees."""
    models = require("torchvision.models", f"The embedder {name}", "torchvision")
    torch = torch_for(name)
    model_name, weights = split(rest)
    model = _create(models, name, model_name, pretrained=weights is None)
    head = _last_linear(torch, name, model)
    if weights is not None:
        fill(model, weights, head=head)
    parent, _, leaf = head.rpartition(".")
    setattr(model.get_submodule(parent), leaf, torch.nn.Identity())
    size = request.image_size or _own_size(models, model_name)
    return backbone(name, model, torch, request, size=size, mean=_MEAN, std=_STD)


def _create(models: Any, name: str, model_name: str, *, pretrained: bool) -> Any:
    try:
        return models.get_model(model_name, weights="DEFAULT" if pretrained else None)
    except (ValueError, KeyError, OSError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise InputError(f"{name} cannot be loaded by torchvision: {reason}") from error


def _last_linear(torch: Any, name: str, model: Any) -> str:
    linear = [key for key, part in model.named_modules() if isinstance(part, torch.nn.Linear)]
    if not linear:
        raise InputError(f"{name} has no last linear layer to take features from.")
    return str(linear[-1])


def _own_size(models: Any, model_name: str) -> int:
    """Return the pixels that the published weights were made for."""
    transform = models.get_model_weights(model_name).DEFAULT.transforms()
    crop = getattr(transform, "crop_size", None) or [_SIZE]
    return int(crop[0])
