"""``cifar_resnet18``: the paper's network for CIFAR."""

from kspr.train.backbones._assemble import assemble
from kspr.train.backbones._network import Network
from kspr.train.backbones._request import Request, channels
from kspr.train.backbones._residual import BasicBlock, ResidualBody, cifar_stem

__all__ = ["build"]


def build(request: Request) -> Network:
    """Return a ResNet-18 with 512 features whose first layer keeps every pixel."""
    body = ResidualBody(
        BasicBlock, (2, 2, 2, 2), channels=channels(request), width=64, stem=cifar_stem
    )
    return assemble(body, body.n_features, request, published_heads=("fc", "linear"))
