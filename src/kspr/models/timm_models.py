"""``timm:NAME``: a model of timm."""

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
    """Return the model; ``weights="pretrained"`` fetches those that timm publishes for it."""
    timm = require("timm", f"The network {request.name}", "timm")
    model = _create(timm, request)
    if request.weights not in (None, "pretrained"):
        fill(model, request.weights, head=last_linear(model, request.in_shape))
    return wrap_network(
        model,
        request.n_classes,
        in_shape=request.in_shape,
        feature_layer=request.feature_layer,
    )


def _create(timm: Any, request: Request) -> nn.Module:
    options = {
        "pretrained": request.weights == "pretrained",
        "num_classes": request.n_classes,
        "in_chans": request.in_shape[0],
    }
    try:
        try:
            # Transformers must know the size; convolutional networks do not take it.
            model = timm.create_model(request.rest, img_size=request.in_shape[1:], **options)
        except TypeError:
            model = timm.create_model(request.rest, **options)
    except (RuntimeError, OSError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise InputError(f"{request.name} cannot be loaded by timm: {reason}") from error
    made: nn.Module = model
    return made
