"""Optional packages, imported by name or missed in one sentence."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from kspr.errors import MissingExtraError

__all__ = ["extra", "import_needs"]


def extra(module: str, purpose: str) -> Any:
    """Return a module of the extra `peers`."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(purpose, "'knockoffs-spr[peers]'") from error


def import_needs(methods: Sequence[tuple[str, Any]]) -> None:
    """Import what methods say they need, so that nothing is missed, or timed, later on."""
    for name, method in methods:
        for module in getattr(method, "needs", ()):
            extra(module, f"The method {name!r}")
