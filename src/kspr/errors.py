"""The errors of this package, as a tree.

::

    KsprError
    ├── InputError (a ValueError)          an argument or a file cannot be used
    │   └── UnreadableItemError            one image or text cannot be decoded
    └── MissingExtraError (an ImportError) an optional package is not installed
"""

__all__ = ["InputError", "KsprError", "MissingExtraError", "UnreadableItemError"]


class KsprError(Exception):
    """Base class of every error that this package raises on purpose."""


class InputError(KsprError, ValueError):
    """Raised when an argument, an option or a file cannot be used.

    The message is one sentence with the argument, the rule, the value and the way out.
    """


class UnreadableItemError(InputError):
    """Raised when a single image or text cannot be decoded; the others may be readable."""


class MissingExtraError(KsprError, ImportError):
    """Raised when an optional package is not installed; the message has the pip command."""

    def __init__(self, purpose: str, package: str) -> None:
        super().__init__(f"{purpose} needs {package}: run `pip install {package}`.")
