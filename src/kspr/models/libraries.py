"""Networks of other packages: ``hf:NAME``, ``timm:NAME`` and ``torchvision:NAME``.

The packages are imported when a network of theirs is built.
"""

from typing import Any

from torch import nn

from kspr._packages import require
from kspr.errors import InputError
from kspr.models.network import Network, NetworkRequest, last_linear, wrap_network
from kspr.models.weights import fill, first_line, from_pretrained

__all__ = [
    "create_timm",
    "create_torchvision",
    "huggingface_network",
    "timm_network",
    "torchvision_network",
]


def huggingface_network(request: NetworkRequest) -> Network:
    """Return an image classifier of the Hugging Face hub or of a local folder.

    It has its own weights; its classifier is new if the number of classes differs.
    """
    require("transformers", f"The network {request.name}", "transformers")
    if request.weights is not None:
        raise InputError(
            f"weights must be left out for {request.name}, which has its own, got "
            f"{request.weights}. For another set, name its folder: hf:FOLDER."
        )
    model = from_pretrained(
        request.name,
        "AutoModelForImageClassification",
        request.library_name,
        num_labels=request.n_classes,
        # Without it a classifier for another number of classes is an error.
        ignore_mismatched_sizes=True,
    )
    return _wrapped(model, request)


def timm_network(request: NetworkRequest) -> Network:
    """Return a model of timm; ``weights="pretrained"`` downloads published weights."""
    timm = require("timm", f"The network {request.name}", "timm")
    model = create_timm(
        timm,
        request.name,
        request.library_name,
        request.in_shape[1:],
        pretrained=request.weights == "pretrained",
        num_classes=request.n_classes,
        in_chans=request.in_shape[0],
    )
    if request.weights not in (None, "pretrained"):
        # `head` may differ in size: the file can be for other classes.
        fill(model, request.weights, head=last_linear(model, request.in_shape))
    return _wrapped(model, request)


def create_timm(
    timm: Any,
    name: str,
    model_name: str,
    image_size: int | tuple[int, ...] | None,
    **options: Any,
) -> nn.Module:
    """Return the model `model_name` of timm, for images of `image_size` pixels if that is given.

    `name` is the user's name for it, for messages.
    """
    try:
        model: nn.Module
        if image_size is not None:
            try:
                # Transformers need the size of images; convolutional networks do not accept it.
                model = timm.create_model(model_name, img_size=image_size, **options)
                return model
            except TypeError:
                pass
        model = timm.create_model(model_name, **options)
        return model
    except (RuntimeError, OSError, ValueError) as error:
        raise InputError(f"{name} cannot be loaded by timm: {first_line(error)}") from error


def torchvision_network(request: NetworkRequest) -> Network:
    """Return a classifier of torchvision; ``weights="pretrained"`` downloads published weights."""
    models = require("torchvision.models", f"The network {request.name}", "torchvision")
    pretrained = request.weights == "pretrained"
    model = create_torchvision(models, request.name, request.library_name, pretrained=pretrained)
    # Found by running it: torchvision names its last layer fc, classifier or head.
    head = last_linear(model, request.in_shape)
    _set_classes(model, head, request.n_classes)
    if request.weights is not None and not pretrained:
        fill(model, request.weights, head=head)
    return _wrapped(model, request)


def create_torchvision(models: Any, name: str, model_name: str, *, pretrained: bool) -> nn.Module:
    """Return the model `model_name` of ``torchvision.models``; `name` is for messages."""
    try:
        model: nn.Module = models.get_model(model_name, weights="DEFAULT" if pretrained else None)
    except (ValueError, KeyError, OSError) as error:
        raise InputError(f"{name} cannot be loaded by torchvision: {first_line(error)}") from error
    return model


def _set_classes(model: nn.Module, head: str, n_classes: int) -> None:
    """Replace the last layer unless it has `n_classes` outputs; published models have 1000."""
    parent, _, leaf = head.rpartition(".")
    old = model.get_submodule(head)
    if isinstance(old, nn.Linear) and old.out_features != n_classes:
        setattr(model.get_submodule(parent), leaf, nn.Linear(old.in_features, n_classes))


def _wrapped(model: nn.Module, request: NetworkRequest) -> Network:
    return wrap_network(
        model, request.n_classes, in_shape=request.in_shape, feature_layer=request.feature_layer
    )
