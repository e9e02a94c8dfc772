"""Threads on this machine: one level of them, and items that are worked at side by side."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.pool import AsyncResult, ThreadPool
from typing import Protocol, TypeVar

import joblib
from threadpoolctl import ThreadpoolController

__all__ = ["Each", "one_blas_thread", "threads"]

_WORTH_THREADS = 5e6
"""Numbers in the features from which on several threads gain more than they lose.

Below, handing out the work takes as long as they save; and beside another busy program, a thread
that waits for its turn while it holds Python's lock makes the others wait too.
"""
Item = TypeVar("Item")
Result = TypeVar("Result")


class Each(Protocol):
    """Apply a function to every item, maybe to several at once; results come in their order."""

    def __call__(
        self, function: Callable[[Item], Result], items: Iterable[Item], /
    ) -> Iterable[Result]:
        """Yield ``function(item)`` for each item."""
        ...


@contextmanager
def threads(size: float, n_jobs: int | None = None) -> Iterator[Each]:
    """Run linear algebra on one thread, and yield a map that works at several items at once.

    Threads of linear algebra wait for each other and spin meanwhile: beside another busy program
    they make a fit several times slower. And sums round differently with their number, while items
    do not depend on it. `size` is how many numbers there are to work at. `n_jobs` is the number of
    threads, as joblib counts them; None takes as many as linear algebra could have used, and one
    for small data.
    """
    blas = ThreadpoolController().select(user_api="blas")
    if n_jobs is not None:
        workers = int(joblib.effective_n_jobs(n_jobs))
    else:
        # NumPy and SciPy may each bring a BLAS; the most restricted one counts.
        available = min((library["num_threads"] for library in blas.info()), default=1)
        workers = available if size >= _WORTH_THREADS else 1
    with blas.limit(limits=1):
        yield map if workers < 2 else _side_by_side(workers)


def one_blas_thread() -> "ThreadpoolController":
    """Return a context in which linear algebra runs on one thread."""
    return ThreadpoolController().select(user_api="blas").limit(limits=1)


def _side_by_side(workers: int) -> Each:
    def each(function: Callable[[Item], Result], items: Iterable[Item], /) -> Iterator[Result]:
        # Its threads end with the process: an interrupt does not wait for them.
        with ThreadPool(workers) as pool:
            # Few items are ahead of the caller: results that wait could fill the memory.
            waiting: deque[AsyncResult[Result]] = deque()
            for item in items:
                waiting.append(pool.apply_async(function, (item,)))
                if len(waiting) >= 2 * workers:
                    yield waiting.popleft().get()
            while waiting:
                yield waiting.popleft().get()

    return each
