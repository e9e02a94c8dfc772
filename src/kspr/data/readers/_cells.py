"""One column's cells, fetched piece by piece when they are asked for."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from kspr.errors import InputError

__all__ = ["Cells", "Segment", "in_memory", "sound"]

_BUDGET = 1 << 30


@dataclass(frozen=True)
class Segment:
    """Consecutive cells that are loaded together, such as a row group of a parquet file."""

    length: int
    nbytes: int
    load: Callable[[], Any]
    """Return an Arrow array (or chunked array) of `length` cells."""


class Cells:
    """Values by row number; segments that were used last stay in memory, up to a budget.

    Safe to use from several threads, and picklable if its segments are.
    """

    def __init__(self, segments: Sequence[Segment], owner: Any = None, budget: int = _BUDGET):
        self._segments = list(segments)
        self._starts = np.cumsum([0, *(segment.length for segment in segments)])
        # Whatever must outlive the cells, such as the temporary file that they lie in.
        self._owner = owner
        self._budget = budget
        self._loaded: OrderedDict[int, Any] = OrderedDict()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return (Cells, (self._segments, self._owner, self._budget))

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, row: int) -> Any:
        """Return one value as a Python object."""
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of {len(self)}")
        number = int(np.searchsorted(self._starts, row, side="right")) - 1
        return self._get(number)[int(row - self._starts[number])].as_py()

    def __iter__(self) -> Iterator[Any]:
        for number in range(len(self._segments)):
            for value in self._get(number):
                yield value.as_py()

    def _get(self, number: int) -> Any:
        with self._lock:
            if number not in self._loaded:
                self._loaded[number] = self._segments[number].load()
                self._forget()
            self._loaded.move_to_end(number)
            return self._loaded[number]

    def _forget(self) -> None:
        while len(self._loaded) > 1 and self._held() > self._budget:
            self._loaded.popitem(last=False)

    def _held(self) -> int:
        return sum(self._segments[number].nbytes for number in self._loaded)


def in_memory(chunks: Iterable[pa.Array], where: str, owner: Any = None) -> Cells:
    """Return cells that are in memory, or memory-mapped, already; checked when they are used."""
    # They cost nothing further, so that none is ever forgotten.
    return Cells([Segment(len(chunk), 0, partial(sound, chunk, where)) for chunk in chunks], owner)


def sound(array: Any, where: str) -> Any:
    """Return an array whose parts agree; Arrow itself trusts a file and would crash."""
    try:
        array.validate(full=True)
    except pa.ArrowException as error:
        reason = str(error).split("\n")[0][:80].rstrip(".")
        raise InputError(f"{where} holds damaged data ({reason}). Write it again.") from error
    return array
