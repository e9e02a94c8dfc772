"""Networks that give features and logits in one pass; one architecture a file."""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kspr.errors import InputError
from kspr.models._request import Request
from kspr.models.network import Network, seeded

__all__ = ["NAMES", "build_network"]

_OWN = ("mlp", "resnet_small", "cifar_resnet18", "resnet50", "inception_resnet_v2")
"""Each is a module of this package with a ``build``."""
_FAMILIES = {
    "hf": "huggingface",
    "timm": "timm_models",
    "torchvision": "torchvision_models",
}
"""Prefix: the module with a ``build``."""

NAMES = (*_OWN, *(f"{family}:NAME" for family in _FAMILIES))


def build_network(
    name: str,
    n_classes: int,
    *,
    in_shape: Sequence[int],
    weights: str | Path | None = None,
    feature_layer: str | None = None,
    seed: int = 0,
) -> Network:
    """Return the network called `name`, one of `NAMES`, on the CPU.

    `in_shape` is the shape of one sample: (channels, height, width), or (dimensions,) for ``mlp``.
    `weights` is a file of ImageNet weights, or ``"pretrained"`` for what timm or torchvision
    publish; the classifier is kept if it has `n_classes`, otherwise it starts anew. `feature_layer`
    names the layer whose output are the features; None: what the classifier sees.

    Weights that come from no file depend on `seed` alone, and torch's random state stays as it is.
    """
    module, rest = _resolve(name)
    request = Request(name, rest, n_classes, tuple(in_shape), weights, feature_layer)
    with seeded(seed):
        network: Network = module.build(request)
    return network


def _resolve(name: str) -> tuple[Any, str]:
    prefix, colon, rest = name.partition(":")
    if not colon and name in _OWN:
        module = name
    elif prefix in _FAMILIES and rest:
        module = _FAMILIES[prefix]
    else:
        raise InputError(f"There is no network {name!r}. Choose from {', '.join(NAMES)}.")
    return importlib.import_module(f"kspr.models.{module}"), rest
