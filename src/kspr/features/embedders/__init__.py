"""Embedders: functions from images or texts to rows of features; the registry of their names.

A ``module:function`` of the user's own is an embedder as well.
"""

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from kspr.errors import InputError
from kspr.features.embedders.embedder import (
    Embedder,
    EmbedderRequest,
    Family,
    Kind,
    as_is,
    both_ways,
    when_asked,
)

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
        return name, _FUNCTION, name
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


def _identity_of_function(rest: str, image_size: int | None) -> dict[str, Any]:
    """Return the image size, and a digest of the file of the module."""
    module = rest.partition(":")[0]
    with _current_directory_first():
        try:
            # Finds the file without running it. ValueError: a module that is loaded without a spec.
            spec = importlib.util.find_spec(module)
        except (ImportError, ValueError):
            spec = None
    if spec is None:
        raise _unusable(rest, f"there is no module {module!r} here or on the Python path")
    file = Path(spec.origin) if spec.origin and Path(spec.origin).is_file() else None
    digest = None if file is None else hashlib.sha256(file.read_bytes()).hexdigest()
    return {"image_size": image_size, "origin": digest}


def _load_function(request: EmbedderRequest) -> Embedder:
    """Return the function as an embedder: a list in, an array with one row per item out.

    Images are scaled to a square if an image size was asked for. If the function has an attribute
    ``dimensions``, every row must have that many features.
    """
    function = _imported(request.rest)
    size = request.image_size if request.kind == "image" else None
    dimensions = getattr(function, "dimensions", None)
    prepare = as_is if size is None else partial(_scaled, size)

    def compute(prepared: list[Any]) -> Any:
        try:
            return function(prepared)
        except (Exception, SystemExit) as error:  # whatever the user's own function raises
            failed = f"on a batch of {len(prepared)}: {type(error).__name__}: {error}"
            raise InputError(f"The embedder {request.name} failed {failed}") from error

    return Embedder(request.name, request.kind, when_asked(compute), prepare, size, dimensions)


def _imported(rest: str) -> Any:
    module, _, attribute = rest.partition(":")
    with _current_directory_first():
        try:
            function: Any = importlib.import_module(module)
        except ModuleNotFoundError as error:
            missing = f"there is no module {error.name!r} here or on the Python path"
            raise _unusable(rest, missing) from error
        except (Exception, SystemExit) as error:  # whatever the user's module raises
            failed = f"importing {module} failed with {type(error).__name__}: {error}"
            raise _unusable(rest, failed) from error
    for part in attribute.split("."):
        function = getattr(function, part, None)
    if not callable(function):
        raise _unusable(rest, f"{module} has no function {attribute!r}")
    return function


def _unusable(rest: str, why: str) -> InputError:
    return InputError(f"The embedder {rest} cannot be used: {why}.")


@contextmanager
def _current_directory_first() -> Iterator[None]:
    """Put the current directory on the import path while the block runs, as `python -m` does."""
    here = str(Path.cwd())
    # A module that was written just now can be imported too.
    importlib.invalidate_caches()
    sys.path.insert(0, here)
    try:
        yield
    finally:
        # By value, not by position: the user's module may have changed the path.
        sys.path.remove(here)


def _scaled(size: int, image: Any) -> Any:
    """Return an image scaled to a square of the given side."""
    from PIL import Image

    return image.resize((size, size), Image.Resampling.BICUBIC)


_FUNCTION = Family(_load_function, _identity_of_function)
