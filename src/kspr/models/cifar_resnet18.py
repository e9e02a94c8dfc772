"""``cifar_resnet18``: the paper's network for CIFAR."""

from kspr.models._request import Request, channels
from kspr.models._residual import BasicBlock, ResidualBody, cifar_stem
from kspr.models.network import Network
from kspr.models.wrap import assemble

__all__ = ["build"]


def build(request: Request) -> Network:
    """Return a ResNet-18 with 512 features whose first layer keeps every pixel."""
    body = ResidualBody(
        BasicBlock, (2, 2, 2, 2), channels=channels(request), width=64, stem=cifar_stem
    )
    return assemble(body, body.n_features, request, published_heads=("fc", "linear"))
