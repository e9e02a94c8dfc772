"""Embedders: functions from images, texts or sounds to rows of features; all of their names.

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
from kspr.sources.options import EmbedSettings

__all__ = [
    "NAMES",
    "Embedder",
    "Kind",
    "embedder_identity",
    "is_function",
    "load_embedder",
]

_DEFAULTS: dict[Kind, str] = {
    "image": "efficientnet-lite0",
    "text": "minilm",
    "sound": "speech-embedding",
}

_FAMILIES: dict[str, tuple[str, str, tuple[Kind, ...]]] = {
    "efficientnet-lite0": ("torch_models", "LITE", ("image",)),
    "efficientnet-lite1": ("torch_models", "LITE", ("image",)),
    "efficientnet-lite2": ("torch_models", "LITE", ("image",)),
    "minilm": ("torch_models", "MINILM", ("text",)),
    "use-multilingual": ("google", "MULTILINGUAL", ("text",)),
    "speech-embedding": ("google", "SPEECH", ("sound",)),
    "hf:NAME": ("torch_models", "HUGGINGFACE", ("image", "text")),
    "timm:NAME": ("torch_models", "TIMM", ("image",)),
    "torchvision:NAME": ("torch_models", "TORCHVISION", ("image",)),
    "st:NAME": ("torch_models", "SENTENCE", ("text",)),
}
"""What users write: the module, its `Family`, and which kinds of items it embeds."""
_PLURAL: dict[Kind, str] = {"image": "images", "text": "texts", "sound": "sounds"}
_DEFAULT_FOR = {name: f" ({_PLURAL[kind]}, the default)" for kind, name in _DEFAULTS.items()}

NAMES = (*(f"{name}{_DEFAULT_FOR.get(name, '')}" for name in _FAMILIES), "module:function")

_LARGEST_IMAGE = 4096
"""Pixels of a side: a batch of 64 such images takes three gigabytes before it is embedded."""


def load_embedder(settings: EmbedSettings, kind: Kind, rows: int = 0) -> Embedder:
    """Return the embedder of `settings`; without a name the default of `kind`, which works offline.

    For thousands of `rows`, a network that runs on a CPU is exported for ONNX Runtime, where that
    is installed. A function of the user's own decides by itself where and how it computes.
    """
    size = settings.image_size
    if size is not None and not 1 <= size <= _LARGEST_IMAGE:
        raise InputError(
            f"image_size must be a number of pixels from 1 to {_LARGEST_IMAGE}, got {size}."
        )
    name, family, rest = _resolve(settings, kind)
    embedder = family.load(EmbedderRequest(name, rest, kind, settings, rows))
    return both_ways(embedder) if settings.flips else embedder


def embedder_identity(settings: EmbedSettings, kind: Kind) -> dict[str, Any]:
    """Return what determines an embedder's output, without loading it: name, size, flips, origin.

    Equal identities mean equal features. Local weights and code are identified by content or date,
    those on a hub by name.
    """
    name, family, rest = _resolve(settings, kind)
    size = settings.image_size or family.image_size
    origin = family.origin(rest)
    return {"embedder": name, "flips": settings.flips, "image_size": size, "origin": origin}


def is_function(name: str) -> bool:
    """Return whether `name` is a ``module:function``, whose use imports and runs that module."""
    prefix, colon, rest = name.partition(":")
    return bool(colon and rest) and f"{prefix}:NAME" not in _FAMILIES and prefix not in _FAMILIES


def _resolve(settings: EmbedSettings, kind: Kind) -> tuple[str, Family, str]:
    """Return the full name, its family, and the part of the name after the colon."""
    if settings.flips and kind != "image":
        raise InputError(f"flips is for images, but the items are {_PLURAL[kind]}. Leave it out.")
    name = _DEFAULTS[kind] if settings.embedder is None else settings.embedder
    if is_function(name):
        return name, _FUNCTION, name
    prefix, colon, rest = name.partition(":")
    key = f"{prefix}:NAME" if colon else name
    if key not in _FAMILIES or (colon and not rest):
        raise InputError(f"There is no embedder {name!r}. Choose from {', '.join(NAMES)}.")
    module, attribute, kinds = _FAMILIES[key]
    if kind not in kinds:
        raise InputError(
            f"{name} embeds {_PLURAL[kinds[0]]}, but the items are {_PLURAL[kind]}. "
            f"Leave the embedder out for {_DEFAULTS[kind]}."
        )
    # Imported now and not above: torch and the libraries take seconds.
    home = importlib.import_module(f"kspr.features.embedders.{module}")
    family: Family = getattr(home, attribute)
    return name, family, rest or name


def _digest_of_module(rest: str) -> str | None:
    """Return a digest of the file of a function's module."""
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
    return None if file is None else hashlib.sha256(file.read_bytes()).hexdigest()


def _load_function(request: EmbedderRequest) -> Embedder:
    """Return the function as an embedder: a list in, an array with one row per item out.

    Images are scaled to a square if an image size was asked for. If the function has an attribute
    ``dimensions``, every row must have that many features.
    """
    function = _imported(request.rest)
    size = request.settings.image_size if request.kind == "image" else None
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


_FUNCTION = Family(_load_function, _digest_of_module)
