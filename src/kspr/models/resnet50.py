"""``resnet50``: the paper's network for Clothing1M."""

from kspr.models._request import Request, channels
from kspr.models._residual import Bottleneck, ResidualBody, imagenet_stem
from kspr.models.network import Network
from kspr.models.wrap import assemble

__all__ = ["build"]


def build(request: Request) -> Network:
    """Return a ResNet-50 with 2048 features; ImageNet weights in torchvision's names fit."""
    body = ResidualBody(
        Bottleneck, (3, 4, 6, 3), channels=channels(request), width=64, stem=imagenet_stem
    )
    return assemble(body, body.n_features, request, published_heads=("fc",))
