"""What every reader returns: labels, and the features or the items that they belong to."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from kspr.sources.options import ReadOptions

__all__ = ["SPLITS", "Items", "ReadOptions", "Reader", "Records", "Rows"]


class Items(Protocol):
    """Images or texts, loaded one at a time; nothing is decoded before it is asked for.

    Several threads may ask at once.
    """

    @property
    def kind(self) -> Literal["image", "text"]:
        """What the items are."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, row: int) -> Any:
        """Return a ``PIL.Image.Image`` in RGB, or a string.

        Raise `UnreadableItemError` if the row cannot be decoded.
        """
        ...

    def content(self) -> Iterator[bytes]:
        """Yield each row's stored bytes, in order: what the fingerprint is made of."""
        ...


@dataclass(frozen=True)
class Records:
    """The rows of a source."""

    source: Path
    reader: str
    """Name of the reader that made them, as in `kspr datasets`."""
    row_id: np.ndarray
    """Text that identifies a row to its owner: a path, a value of the id column, a number."""
    label: np.ndarray | None = None
    features: Any = None
    """``(rows, p)``: an array or memory map; None where there are items to be embedded."""
    items: Items | None = None
    truth: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.row_id)


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


SPLITS = frozenset({"train", "training", "test", "testing", "val", "valid", "validation", "dev"})


@dataclass(frozen=True)
class Rows:
    """Rows that answers can speak of: their numbers in the source, their names, their labels."""

    row: np.ndarray
    row_id: np.ndarray
    label: np.ndarray
