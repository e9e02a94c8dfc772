"""``mlp``: a small head on vectors, for embeddings that a frozen model made."""

from torch import nn

from kspr.errors import InputError
from kspr.models._request import Request
from kspr.models.network import Network
from kspr.models.wrap import assemble

__all__ = ["build"]

_WIDTH = 512


def build(request: Request) -> Network:
    """Return one hidden layer of 512 units on vectors, and the classifier on it."""
    if len(request.in_shape) != 1:
        raise InputError(
            f"mlp takes vectors, in_shape=(dimensions,), got {request.in_shape}. For images choose "
            "'resnet_small'."
        )
    body = nn.Sequential(
        nn.Linear(request.in_shape[0], _WIDTH, bias=False),
        # Embeddings come in any scale; this makes the learning rate mean the same for all.
        nn.BatchNorm1d(_WIDTH),
        nn.ReLU(inplace=True),
    )
    return assemble(body, _WIDTH, request)
