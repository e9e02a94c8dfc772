"""``resnet_small``: a network that CPUs can train."""

from torch import nn

from kspr.models._request import Request, channels
from kspr.models._residual import BasicBlock, ResidualBody, Stem, cifar_stem
from kspr.models.network import Network
from kspr.models.wrap import assemble

__all__ = ["build"]

_WIDTH = 32
_LARGE = 24
"""Pixels a side from which the stem halves images; smaller ones need each pixel."""


def build(request: Request) -> Network:
    """Return three stages of one block each, 128 features."""
    n_in = channels(request)
    stem: Stem = _halving if min(request.in_shape[1:]) >= _LARGE else cifar_stem
    body = ResidualBody(BasicBlock, (1, 1, 1), channels=n_in, width=_WIDTH, stem=stem)
    return assemble(body, body.n_features, request)


def _halving(n_in: int, n_out: int) -> tuple[nn.Conv2d, nn.Module]:
    return nn.Conv2d(n_in, n_out, 3, 2, 1, bias=False), nn.Identity()
