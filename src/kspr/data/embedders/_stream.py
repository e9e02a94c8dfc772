"""Items decoded ahead of the model, in order."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from os import cpu_count
from typing import Any

from kspr.data.records import Items
from kspr.errors import UnreadableItemError

__all__ = ["Decoded", "decoded"]

_THREADS = min(4, cpu_count() or 1)


@dataclass(frozen=True)
class Decoded:
    """An item that is ready for the model, or the reason why it is not."""

    row: int
    value: Any = None
    reason: str | None = None


def decoded(
    items: Items, rows: Iterable[int], prepare: Callable[[Any], Any], *, ahead: int
) -> Generator[Decoded, None, None]:
    """Yield `rows` in order, at most `ahead` of them decoded before they are asked for.

    Images are decoded in a few threads, since Pillow lets go of the interpreter meanwhile.
    """

    def decode(row: int) -> Decoded:
        try:
            return Decoded(row, prepare(items[row]))
        except UnreadableItemError as error:
            return Decoded(row, reason=str(error))

    if items.kind == "text":
        yield from map(decode, rows)
    else:
        yield from _in_threads(decode, iter(rows), ahead)


def _in_threads(
    decode: Callable[[int], Decoded], rows: Iterator[int], ahead: int
) -> Generator[Decoded, None, None]:
    pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="kspr-decode")
    try:
        waiting: deque[Future[Decoded]] = deque(
            pool.submit(decode, row) for row in islice(rows, ahead)
        )
        while waiting:
            result = waiting.popleft().result()
            waiting.extend(pool.submit(decode, row) for row in islice(rows, 1))
            yield result
    finally:
        # Also reached when the reader stops early, by an error or by Ctrl-C.
        pool.shutdown(wait=True, cancel_futures=True)
