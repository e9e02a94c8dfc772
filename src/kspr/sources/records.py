"""What opening a source returns: its rows, with the features or the items that they have."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from kspr._files import drop_pages
from kspr.sources.readers.file_checks import BLOCK_BYTES

__all__ = [
    "Items",
    "Records",
    "all_distinct",
    "content_digests",
    "number_digests",
    "number_texts",
    "row_digests",
]


class Items(Protocol):
    """Images, texts or sounds, loaded one at a time; nothing is decoded before it is asked for.

    Several threads may ask at once.
    """

    @property
    def kind(self) -> Literal["image", "text", "sound"]:
        """What the items are."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, row: int) -> Any:
        """Return a ``PIL.Image.Image`` in RGB, a string, or samples of a sound (`SOUND_RATE`).

        Raise `UnreadableItemError` if the row cannot be decoded.
        """
        ...

    def stored(self, row: int) -> bytes:
        """Return a row's stored bytes; empty where there are none, or where they are gone."""
        ...

    def file(self, row: int) -> Path | None:
        """Return the file that a row has to itself; None where it is in a table or an archive."""
        ...

    def content(self) -> Iterator[bytes]:
        """Yield each row's stored bytes, in order; the fingerprint is computed from them."""
        ...


def number_texts(row: np.ndarray) -> np.ndarray:
    """Return row numbers as texts: the ids of rows that have no others.

    >>> number_texts(np.array([9, 10])).tolist()
    ['9', '10']
    """
    # Without a width, numpy would take 84 bytes for every number.
    return row.astype(f"<U{len(str(row.max(initial=0)))}")


@dataclass(frozen=True, eq=False)
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
    groups: np.ndarray | None = None
    """Which rows belong together, as text, where the user has named them."""
    named: bool = False
    """Whether the source itself holds the ids; otherwise they are row numbers."""
    notes: tuple[str, ...] = ()
    """Sentences for the user: what had to be assumed to read the source."""
    no_labels: str | None = None
    """Why labels are missing, of all rows or of those in `unlabelled`: one sentence."""
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of a table's columns by their role: features, label, ..., ignored."""
    unlabelled: np.ndarray | None = None
    """Row numbers whose entry in `label` has no meaning, as they have none; None without such."""
    probabilities: Any = None
    """``(rows, classes)``, where the user has named them."""
    probability_columns: tuple[str, ...] = ()
    """Names of their columns in a table, which name the classes."""
    encoder: Any = None
    """How the gaps, dates and categories of a table became numbers; None for a table without."""
    digest: np.ndarray | None = None
    """A digest of what each row holds, where features are made of more than their own row."""

    def __len__(self) -> int:
        return len(self.row_id)

    def labelled(self) -> np.ndarray:
        """Return the numbers of the rows that have a label, in order."""
        every = np.arange(len(self))
        return every if self.unlabelled is None else np.delete(every, self.unlabelled)


def row_digests(records: Records) -> np.ndarray:
    """Return a 64-bit digest of each row's content: its features, else its stored bytes.

    Rows that have neither are told by their probabilities. Equal numbers have equal digests in any
    format: they count in single precision.
    """
    if records.digest is not None:
        return records.digest
    if records.features is not None:
        return number_digests(records.features)
    if records.items is not None:
        return content_digests(records.items.content())
    shown = records.probabilities
    return np.empty(0, np.uint64) if shown is None else number_digests(shown)


def number_digests(numbers: Any) -> np.ndarray:
    """Return a 64-bit digest of each row of an array."""
    return content_digests(_number_rows(numbers))


def all_distinct(ids: np.ndarray) -> bool:
    """Return whether no two ids are equal."""
    # Eight bytes of each, not a set of texts, which takes far more than the texts themselves.
    digest = content_digests(str(text).encode("utf-8", "surrogatepass") for text in ids)
    digest.sort()
    # Equal digests of different ids are all but impossible; still, only the ids decide.
    return not (digest[1:] == digest[:-1]).any() or len(set(ids.tolist())) == len(ids)


def content_digests(contents: Iterable[Any]) -> np.ndarray:
    """Return a 64-bit digest of each of `contents`, which are bytes or arrays of bytes."""
    # BLAKE2: whoever does not know a content cannot write its digest into a run.
    digests = (hashlib.blake2b(content, digest_size=8).digest() for content in contents)
    # One by one: joined, all of them would be Python objects at once, of five times the size.
    numbers = (int.from_bytes(digest, "little") for digest in digests)
    return np.fromiter(numbers, dtype=np.uint64)


def _number_rows(numbers: Any) -> Iterator[np.ndarray]:
    step = max(1, BLOCK_BYTES // max(1, 4 * numbers.shape[1]))
    for start in range(0, len(numbers), step):
        # Values beyond single precision become infinite, here and at every later reading.
        with np.errstate(over="ignore", invalid="ignore"):
            block = np.array(numbers[start : start + step], dtype="<f4", order="C")
        if isinstance(numbers, np.ndarray):
            drop_pages(numbers)
        yield from block.view(np.uint8)
