"""`build_network`: a network from its name; the registry of names."""

from collections.abc import Callable, Sequence
from pathlib import Path

from torch import nn

from kspr.errors import InputError
from kspr.models.inception_resnet_v2 import inception_resnet_v2
from kspr.models.libraries import huggingface_network, timm_network, torchvision_network
from kspr.models.network import Network, NetworkRequest, assemble, seeded
from kspr.models.residual import cifar_resnet18, resnet50, resnet_small

__all__ = ["NAMES", "build_network"]

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
