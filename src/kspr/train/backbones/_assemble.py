"""The last steps that our own architectures share."""

from torch import nn

from kspr.train.backbones._network import BodyNetwork, Network
from kspr.train.backbones._request import Request
from kspr.train.backbones._weights import fill_body
from kspr.train.backbones._wrap import wrap_network

__all__ = ["assemble"]


def assemble(
    body: nn.Module, n_features: int, request: Request, *, published_heads: tuple[str, ...] = ()
) -> Network:
    """Return `body` with a head, its weights from a file, and its features where asked for."""
    network = BodyNetwork(body, n_features, request.n_classes)
    if request.weights is not None:
        fill_body(network, request.weights, published_heads)
    if request.feature_layer is None:
        return network
    return wrap_network(
        network,
        request.n_classes,
        in_shape=request.in_shape,
        feature_layer=request.feature_layer,
    )
