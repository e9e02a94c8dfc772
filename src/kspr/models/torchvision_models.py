"""``torchvision:NAME``: a classifier of torchvision."""

from typing import Any

from torch import nn

from kspr._packages import require
from kspr.errors import InputError
from kspr.models._request import Request
from kspr.models.network import Network
from kspr.models.weights import fill
from kspr.models.wrap import last_linear, wrap_network

__all__ = ["build"]


def build(request: Request) -> Network:
    """Return the model; ``weights="pretrained"`` fetches those that torchvision publishes."""
    models = require("torchvision.models", f"The network {request.name}", "torchvision")
    pretrained = request.weights == "pretrained"
    model = _create(models, request, pretrained=pretrained)
    head = last_linear(model, request.in_shape)
    _set_classes(model, head, request.n_classes)
    if request.weights is not None and not pretrained:
        fill(model, request.weights, head=head)
    return wrap_network(
        model,
        request.n_classes,
        in_shape=request.in_shape,
        feature_layer=request.feature_layer,
    )


def _create(models: Any, request: Request, *, pretrained: bool) -> nn.Module:
    try:
        model = models.get_model(request.rest, weights="DEFAULT" if pretrained else None)
    except (ValueError, KeyError, OSError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise InputError(f"{request.name} cannot be loaded by torchvision: {reason}") from error
    made: nn.Module = model
    return made


def _set_classes(model: nn.Module, head: str, n_classes: int) -> None:
    """Replace the last layer unless it has the right size; published ones have 1000 classes."""
    parent, _, leaf = head.rpartition(".")
    old = model.get_submodule(head)
    if isinstance(old, nn.Linear) and old.out_features != n_classes:
        setattr(model.get_submodule(parent), leaf, nn.Linear(old.in_features, n_classes))
