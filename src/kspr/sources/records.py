"""What opening a source returns: its rows, with the features or the items that they have."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

__all__ = ["ChosenItems", "Items", "Records"]


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
        """Yield each row's stored bytes, in order; the fingerprint is computed from them."""
        ...


@dataclass(frozen=True)
class ChosenItems:
    """Some of a source's items, numbered from 0 in the order of `row`."""

    items: Items
    row: np.ndarray
    """Row numbers in the source, in ascending order."""

    @property
    def kind(self) -> Literal["image", "text"]:
        """What the items are."""
        return self.items.kind

    def __len__(self) -> int:
        return len(self.row)

    def __getitem__(self, row: int) -> Any:
        return self.items[int(self.row[row])]

    def content(self) -> Iterator[bytes]:
        """Yield the stored bytes of each chosen item."""
        # Contents can be read in order only. As `row` ascends, passing over the others keeps to it.
        chosen = set(self.row.tolist())
        return (c for row, c in enumerate(self.items.content()) if row in chosen)


@dataclass(frozen=True)
class Records:
    """The rows of a source."""

    source: Path
    reader: str
    """Name of the format, or of the published data set, as in `kspr datasets`."""
    row_id: np.ndarray
    """Text by which a person recognises a row: a path, a value of the id column, a number."""
    label: np.ndarray | None = None
    features: Any = None
    """``(rows, p)``: an array or memory map; None where there are items to be embedded."""
    items: Items | None = None
    truth: np.ndarray | None = None
    probabilities: Any = None
    """``(rows, classes)``, where the user has named them."""
    probability_columns: tuple[str, ...] = ()
    """Names of their columns in a table, which name the classes."""

    def __len__(self) -> int:
        return len(self.row_id)
