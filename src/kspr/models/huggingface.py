"""``hf:NAME``: an image classifier of the Hugging Face hub or of a local folder."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kspr._packages import require
from kspr.errors import InputError
from kspr.models._request import Request
from kspr.models.network import Network
from kspr.models.weights import check_source
from kspr.models.wrap import wrap_network

__all__ = [
    "build",
    "from_pretrained",
    "quiet",
]


def build(request: Request) -> Network:
    """Return the model with its own weights, and a new classifier if the classes differ."""
    require("transformers", f"The network {request.name}", "transformers")
    if request.weights is not None:
        raise InputError(
            f"weights must be left out for {request.name}, which has its own, got "
            f"{request.weights}. For another set, name its folder: hf:FOLDER."
        )
    model = from_pretrained(
        request.name,
        "AutoModelForImageClassification",
        request.rest,
        num_labels=request.n_classes,
        ignore_mismatched_sizes=True,
    )
    return wrap_network(
        model,
        request.n_classes,
        in_shape=request.in_shape,
        feature_layer=request.feature_layer,
    )


def from_pretrained(name: str, auto: str, source: str, **options: Any) -> Any:
    """Return what the class `auto` of transformers makes of `source`; never runs code from it."""
    transformers = require("transformers", f"The embedder {name}", "transformers")
    check_source(name, source)
    try:
        with quiet():
            loader = getattr(transformers, auto)
            return loader.from_pretrained(source, trust_remote_code=False, **options)
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise InputError(f"{name} cannot be loaded by transformers' {auto}: {reason}") from error


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers' loading bars and notices about unused heads off the terminal."""
    log = importlib.import_module("transformers.utils.logging")
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()
