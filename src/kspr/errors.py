"""What can go wrong, as a tree.

::

    KsprError
    ├── InputError (a ValueError)          what the caller handed over cannot work
    │   └── UnreadableItemError            one image or text cannot be decoded
    └── MissingExtraError (an ImportError) an optional part is not installed
"""

__all__ = ["InputError", "KsprError", "MissingExtraError", "UnreadableItemError"]


class KsprError(Exception):
    """The root of every error that this package raises on purpose."""


class InputError(KsprError, ValueError):
    """One sentence: the argument, the rule, the value and the way out."""


class UnreadableItemError(InputError):
    """One image or text cannot be decoded; the others may be fine."""


class MissingExtraError(KsprError, ImportError):
    """An optional dependency is missing; the message names the pip command."""

    def __init__(self, purpose: str, package: str) -> None:
        super().__init__(f"{purpose} needs {package}: run `pip install {package}`.")
