"""Embedders: images or texts in, one row of features each out; one family a file."""

import importlib
from typing import Any

from kspr.errors import InputError
from kspr.features.embedders.embedder import Embedder, Kind, Request

__all__ = ["NAMES", "Embedder", "Kind", "embedder_identity", "load_embedder"]

_DEFAULTS: dict[Kind, str] = {"image": "efficientnet-lite0", "text": "minilm"}

_FAMILIES: dict[str, tuple[str, tuple[Kind, ...]]] = {
    "efficientnet-lite0": ("lite0", ("image",)),
    "minilm": ("minilm", ("text",)),
    "hf": ("huggingface", ("image", "text")),
    "timm": ("timm_models", ("image",)),
    "torchvision": ("torchvision_models", ("image",)),
    "st": ("sentence", ("text",)),
}
"""Name or prefix: the module with its ``load`` and ``identity``, and what it embeds."""

NAMES = (
    "efficientnet-lite0 (images, the default)",
    "minilm (text, the default)",
    "hf:NAME",
    "timm:NAME",
    "torchvision:NAME",
    "st:NAME",
    "module:function",
)


def load_embedder(
    name: str | None,
    kind: Kind,
    *,
    device: str = "auto",
    half: bool = False,
    image_size: int | None = None,
) -> Embedder:
    """Return the embedder called `name`; None for the one that works offline.

    `device` is ``auto``, ``cpu``, ``cuda``, ``cuda:1``, ``mps``; a function of the user's own sees
    to that itself. `half` computes in half precision where the device gains by it.
    """
    if image_size is not None and image_size < 1:
        raise InputError(f"image_size must be a number of pixels of at least 1, got {image_size}.")
    name, family, rest = _resolve(name, kind)
    request = Request(kind=kind, device=device, half=half, image_size=image_size)
    embedder: Embedder = family.load(name, rest, request)
    return embedder


def embedder_identity(
    name: str | None, kind: Kind, *, image_size: int | None = None
) -> dict[str, Any]:
    """Return what decides an embedder's output, without loading it: name, size, origin.

    Two equal identities mean the same features; weights and code in local files count by content
    or by date, those on a hub by name.
    """
    name, family, rest = _resolve(name, kind)
    identity: dict[str, Any] = family.identity(rest, image_size)
    return {"embedder": name, **identity}


def _resolve(name: str | None, kind: Kind) -> tuple[str, Any, str]:
    """Return the full name, the module of its family, and what follows the prefix."""
    name = _DEFAULTS[kind] if name is None else name
    prefix, colon, rest = name.partition(":")
    known = prefix in _FAMILIES and bool(colon) == (prefix not in _DEFAULTS.values())
    if known and (rest or not colon):
        module, kinds = _FAMILIES[prefix]
        if kind not in kinds:
            raise InputError(
                f"{name} embeds {_plural(kinds[0])}, but the items are {_plural(kind)}. "
                f"Leave the embedder out for {_DEFAULTS[kind]}."
            )
    elif colon and rest and prefix not in _FAMILIES:
        module, rest = "function", name
    else:
        raise InputError(f"There is no embedder {name!r}. Choose from {', '.join(NAMES)}.")
    return name, importlib.import_module(f"kspr.features.embedders.{module}"), rest


def _plural(kind: Kind) -> str:
    return {"image": "images", "text": "texts"}[kind]
