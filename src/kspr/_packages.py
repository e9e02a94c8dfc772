"""Optional packages, and the weights and folders that models come from."""

import importlib
import importlib.metadata
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from kspr.errors import MissingExtraError

__all__ = ["extra", "import_needs", "require", "version"]


def require(module: str, purpose: str, package: str) -> Any:
    """Import `module`, or say which pip command brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        # A package that is there but cannot be imported has its own story to tell.
        if error.name is not None and error.name.partition(".")[0] != module.partition(".")[0]:
            missing = error.name.partition(".")[0]
            raise MissingExtraError(f"{purpose} ({module})", missing) from error
        raise MissingExtraError(purpose, package) from error


def version(package: str) -> str | None:
    """Return the installed version, None without one."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


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
