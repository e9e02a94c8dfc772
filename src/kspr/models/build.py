"""`build_network`: a network from its name; the registry of names.

Packages of other networks (``hf:NAME``, ``timm:NAME``, ``torchvision:NAME``) are imported when a
network of theirs is built.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from kspr._packages import require
from kspr.errors import InputError
from kspr.models.architectures import (
    cifar_resnet18,
    inception_resnet_v2,
    resnet50,
    resnet_small,
)
from kspr.models.network import (
    Network,
    NetworkRequest,
    assemble,
    last_linear,
    seeded,
    wrapped,
)
from kspr.models.weights import fill, first_line, from_pretrained

__all__ = ["NAMES", "build_network", "create_timm", "create_torchvision"]

_MLP_WIDTH = 512


def mlp(request: NetworkRequest) -> Network:
    """Return a network for embeddings: one hidden layer of 512 units and a classifier."""
    body = nn.Sequential(
        # No bias: the normalisation that follows would subtract it again.
        nn.Linear(_dimensions(request), _MLP_WIDTH, bias=False),
        # Embeddings come in any scale; this makes the learning rate mean the same for all.
        nn.BatchNorm1d(_MLP_WIDTH),
        nn.ReLU(inplace=True),
    )
    return assemble(body, _MLP_WIDTH, request)


def linear(request: NetworkRequest) -> Network:
    """Return a classifier without a hidden layer: logistic regression on the embeddings."""
    return assemble(nn.Identity(), _dimensions(request), request)


def _dimensions(request: NetworkRequest) -> int:
    """Return the size of the vectors; raise if samples are none."""
    if len(request.in_shape) != 1:
        raise InputError(
            f"{request.name} takes vectors, in_shape=(dimensions,), got {request.in_shape}. For "
            "images choose 'resnet_small'."
        )
    return request.in_shape[0]


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
    return wrapped(model, request)


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
    return wrapped(model, request)


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
    # Transformers need the size of images; convolutional networks do not accept it.
    sized = {} if image_size is None else {"img_size": image_size}
    try:
        try:
            model: nn.Module = timm.create_model(model_name, **sized, **options)
        except TypeError:
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
    return wrapped(model, request)


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


_NETWORKS: dict[str, Callable[[NetworkRequest], Network]] = {
    "mlp": mlp,
    "linear": linear,
    "resnet_small": resnet_small,
    "cifar_resnet18": cifar_resnet18,
    "resnet50": resnet50,
    "inception_resnet_v2": inception_resnet_v2,
    "hf:NAME": huggingface_network,
    "timm:NAME": timm_network,
    "torchvision:NAME": torchvision_network,
}
"""What users write, and the function that builds it; NAME stands for a name of that library."""

NAMES = tuple(_NETWORKS)


def build_network(
    name: str,
    n_classes: int,
    *,
    in_shape: Sequence[int],
    weights: str | Path | None = None,
    feature_layer: str | None = None,
    seed: int = 0,
) -> Network:
    """Return the network called `name`, on the CPU.

    Parameters
    ----------
    name
        One of `NAMES`.
    n_classes
        Number of logits per sample, at least 2.
    in_shape
        Shape of one sample: (channels, height, width), or (dimensions,) for ``mlp``.
    weights
        File of weights, or ``"pretrained"`` for those that timm or torchvision publish. The
        classifier is kept if it has `n_classes` outputs; otherwise it gets random weights.
    feature_layer
        Layer whose output is the features; None for the input of the classifier.
    seed
        Seed of the random initial weights. The state of torch's generators does not change.

    Examples
    --------
    >>> network = build_network("mlp", 3, in_shape=(8,))
    >>> network.n_features, network.n_classes
    (512, 3)
    """
    prefix, colon, rest = name.partition(":")
    key = f"{prefix}:NAME" if colon else name
    if key not in _NETWORKS or (colon and not rest):
        raise InputError(f"There is no network {name!r}. Choose from {', '.join(NAMES)}.")
    request = NetworkRequest(name, rest, n_classes, tuple(in_shape), weights, feature_layer)
    # Initial weights are drawn from torch's default generator.
    with seeded(seed):
        return _NETWORKS[key](request)
