"""Engines: where the pieces are solved.

The work items are the same for every engine and every number of workers, and so are the answers:
where there are several items, linear algebra inside them runs on one thread. An engine is a
function and a line in `ENGINES`.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from threadpoolctl import threadpool_limits

from kspr._progress import Progress
from kspr.selectors.engines.local import processes, serial, threads

__all__ = ["ENGINES", "Engine", "run"]

Item = TypeVar("Item")
Result = TypeVar("Result")


class Engine(Protocol):
    """Apply a function to every item, and yield the results in the items' order."""

    def __call__(
        self, function: Callable[[Item], Result], items: Sequence[Item], n_jobs: int | None
    ) -> Iterator[Result]:
        """Yield ``function(item)`` for each item."""
        ...


ENGINES: dict[str, Engine] = {"serial": serial, "threads": threads, "processes": processes}


def run(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    *,
    engine: str,
    n_jobs: int | None,
    progress: Progress,
) -> list[Result]:
    """Return the results of all items, in order."""
    if len(items) == 1:
        # A single item is best served by the linear algebra's own threads.
        results = [function(items[0])]
        progress.advance()
        return results
    results = []
    # Sums round differently with the number of BLAS threads; with one, all engines agree.
    with threadpool_limits(limits=1, user_api="blas"):
        for result in ENGINES[engine](function, items, n_jobs):
            results.append(result)
            progress.advance()
    return results
