"""``module:function``: a function of the user's own as an embedder."""

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
    as_is,
    when_asked,
)

__all__ = ["FUNCTION"]


def _identity(rest: str, image_size: int | None) -> dict[str, Any]:
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


def _load(request: EmbedderRequest) -> Embedder:
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


FUNCTION = Family(_load, _identity)
