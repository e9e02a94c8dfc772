"""The errors of this package, as a tree.

::

    KsprError
    ├── InputError (a ValueError)          an argument or a file cannot be used
    │   └── UnreadableItemError            one image or text cannot be decoded
    └── MissingExtraError (an ImportError) an optional package is not installed

`check_seed` is the one rule for a seed, in all rooms.
"""

from numbers import Integral
from pathlib import Path
from typing import Any

from kspr._text import shorten

__all__ = ["InputError", "KsprError", "MissingExtraError", "UnreadableItemError", "check_seed"]


LONGEST = 900
"""Characters of a message: a name in a damaged file may have millions."""


class KsprError(Exception):
    """Base class of every error that this package raises on purpose."""

    def __str__(self) -> str:
        text = super().__str__()
        # The file is named at the beginning, and the way out at the end: both stay.
        return text if len(text) <= LONGEST else shorten(text, LONGEST)


class InputError(KsprError, ValueError):
    """Raised when an argument, an option or a file cannot be used.

    The message is one sentence with the argument, the rule, the value and the way out.
    """


class UnreadableItemError(InputError):
    """Raised when a single image or text cannot be decoded; the others may be readable."""


class MissingExtraError(KsprError, ImportError):
    """Raised when an optional package is not installed; the message has the pip command.

    `package` is the name of a package, or an extra of this one: ``"'knockoffs-spr[train]'"``.
    """

    def __init__(self, purpose: str, package: str) -> None:
        super().__init__(f"{purpose} needs {package}: run `{_pip_command(package)}`.")


def _pip_command(package: str) -> str:
    """Return the command that brings `package`, from wherever this one was installed."""
    name, _, extra = package.strip("'").rstrip("]").partition("[")
    if name != "knockoffs-spr":
        return f"pip install {package}"
    # Imported here: `import kspr` is quick, and most users never see this message.
    import importlib.metadata
    import shlex

    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "pyproject.toml").is_file():
        return f"pip install -e {shlex.quote(f'{checkout}[{extra}]')}"
    # The packages themselves: no index has this one yet, so its extras cannot be asked for.
    try:
        listed = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        listed = []
    split = (line.partition(";") for line in listed)
    needed = [shlex.quote(wanted.strip()) for wanted, _, when in split if repr(extra) in when]
    return f"pip install {' '.join(needed) or package}"


def check_seed(seed: Any, name: str = "seed") -> int:
    """Return a seed that every generator takes: a whole number from 0 to 2**32 - 1."""
    # scikit-learn's generators take no larger one; one rule for all is easier to remember.
    if not isinstance(seed, Integral) or not 0 <= int(seed) < 2**32:
        raise InputError(f"{name} must be a whole number from 0 to {2**32 - 1}, got {seed!r}.")
    return int(seed)
