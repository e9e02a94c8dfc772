"""What a reader is: a name, a line for people, a question and an answer."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kspr.data.records import ReadOptions, Records

__all__ = ["Reader"]


@dataclass(frozen=True)
class Reader:
    """One format."""

    name: str
    reads: str
    """One line that `kspr datasets` prints: what is read, and which suffix or layout it has."""
    matches: Callable[[Path, ReadOptions], bool]
    """Tell whether a path is of this format, by its name or layout; never raises."""
    read: Callable[[Path, ReadOptions], Records]
    """Return the rows of a path that matched, or raise `InputError`."""
