"""From a source to its features: embedders, their cache, and the one function that loads.

`load` and `Loaded` come when they are first asked for: the command line's help needs the options
only, and must not wait for the readers.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kspr.features.loading import Loaded, load

__all__ = ["Loaded", "load"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'kspr.features' has no attribute {name!r}")
    return getattr(import_module("kspr.features.loading"), name)
