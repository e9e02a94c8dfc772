"""Embedders: functions from images or texts to rows of features; the registry of their names."""

import importlib
from typing import Any

from kspr.errors import InputError
from kspr.features.embedders.embedder import Embedder, EmbedderRequest, Family, Kind, both_ways
from kspr.features.embedders.function import FUNCTION

__all__ = [
    "NAMES",
    "Embedder",
    "Kind",
    "embedder_identity",
    "embedder_name",
    "is_function",
    "load_embedder",
]

_DEFAULTS: dict[Kind, str] = {"image": "efficientnet-lite0", "text": "minilm"}

_FAMILIES: dict[str, tuple[str, str, tuple[Kind, ...]]] = {
    "efficientnet-lite0": ("images", "LITE", ("image",)),
    "efficientnet-lite1": ("images", "LITE", ("image",)),
    "efficientnet-lite2": ("images", "LITE", ("image",)),
    "minilm": ("transformer_models", "MINILM", ("text",)),
    "hf": ("transformer_models", "HUGGINGFACE", ("image", "text")),
    "st": ("transformer_models", "SENTENCE", ("text",)),
    "timm": ("images", "TIMM", ("image",)),
    "torchvision": ("images", "TORCHVISION", ("image",)),
}
"""Name or prefix: the module and its `Family`, and which kinds of items it embeds."""

_PREFIXES = ("hf", "st", "timm", "torchvision")
"""Families of many models, whose names follow a colon; the others are whole names."""

_LARGEST_IMAGE = 4096
"""Pixels of a side: a batch of 64 such images takes three gigabytes before it is embedded."""

NAMES = (
    "efficientnet-lite0 (images, the default)",
    "efficientnet-lite1",
    "efficientnet-lite2",
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
    flips: bool = False,
    strict: bool = False,
    rows: int = 0,
) -> Embedder:
    """Return the embedder called `name`.

    Parameters
    ----------
    name
        One of `NAMES`; None for the default of `kind`, which works offline.
    kind
        ``"image"`` or ``"text"``.
    device
        ``auto``, ``cpu``, ``cuda``, ``cuda:1`` or ``mps``; ignored for a function of your own.
    half
        Compute in half precision where the device is faster in it.
    image_size
        Side in pixels to which images are scaled; None for the embedder's own.
    flips
        Average the features of each image and of its mirror image.
    strict
        Raise `InputError` if `half` cannot be followed because bfloat16 fails on this processor;
        otherwise warn and compute in float32.
    rows
        Number of items that will be embedded. For thousands of them, a network that runs on a CPU
        is exported for ONNX Runtime, where that is installed.
    """
    if image_size is not None and not 1 <= image_size <= _LARGEST_IMAGE:
        raise InputError(
            f"image_size must be a number of pixels from 1 to {_LARGEST_IMAGE}, got {image_size}."
        )
    _check_flips(kind, flips)
    name, family, rest = _resolve(name, kind)
    request = EmbedderRequest(name, rest, kind, device, half, image_size, strict, rows)
    return both_ways(family.load(request)) if flips else family.load(request)


def embedder_identity(
    name: str | None, kind: Kind, *, image_size: int | None = None, flips: bool = False
) -> dict[str, Any]:
    """Return what determines an embedder's output, without loading it: name, size, flips, origin.

    Equal identities mean equal features. Local weights and code are identified by content or date,
    those on a hub by name.
    """
    _check_flips(kind, flips)
    name, family, rest = _resolve(name, kind)
    return {"embedder": name, "flips": flips, **family.identity(rest, image_size)}


def embedder_name(name: str | None, kind: Kind) -> str:
    """Return `name`, or the name of the default for `kind` if it is None.

    Store this with features: the default of a later version may be another one.

    >>> embedder_name(None, "text"), embedder_name("timm:resnet18", "image")
    ('minilm', 'timm:resnet18')
    """
    return _DEFAULTS[kind] if name is None else name


def is_function(name: str) -> bool:
    """Return whether `name` is a ``module:function``, whose use imports and runs that module."""
    prefix, colon, rest = name.partition(":")
    return bool(colon and rest) and prefix not in _FAMILIES


def _resolve(name: str | None, kind: Kind) -> tuple[str, Family, str]:
    """Return the full name, its family, and the part of the name after the colon."""
    name = embedder_name(name, kind)
    prefix, colon, rest = name.partition(":")
    if is_function(name):
        return name, FUNCTION, name
    if prefix not in _FAMILIES or not bool(colon) == bool(rest) == (prefix in _PREFIXES):
        raise InputError(f"There is no embedder {name!r}. Choose from {', '.join(NAMES)}.")
    module, attribute, kinds = _FAMILIES[prefix]
    if kind not in kinds:
        raise InputError(
            f"{name} embeds {_plural(kinds[0])}, but the items are {_plural(kind)}. "
            f"Leave the embedder out for {_DEFAULTS[kind]}."
        )
    # Imported now and not above: torch and the libraries take seconds.
    home = importlib.import_module(f"kspr.features.embedders.{module}")
    family: Family = getattr(home, attribute)
    return name, family, rest or name


def _check_flips(kind: Kind, flips: bool) -> None:
    if flips and kind == "text":
        raise InputError("flips is for images, but the items are texts. Leave it out.")


def _plural(kind: Kind) -> str:
    return {"image": "images", "text": "texts"}[kind]
