"""Engines on this machine: one item after the other, threads, or processes."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from multiprocessing.pool import AsyncResult, ThreadPool
from typing import Any, TypeVar

import joblib
from threadpoolctl import ThreadpoolController

__all__ = ["one_level_of_threads", "processes", "serial", "side_by_side", "threads"]

_WORTH_THREADS = 5e6
"""Numbers in the features from which on several threads gain more than they lose.

Below, handing out the work takes as long as they save; and beside another busy program, a thread
that waits for its turn while it holds Python's lock makes the others wait too.
"""
Item = TypeVar("Item")
Result = TypeVar("Result")


def serial(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    n_jobs: int | None,  # noqa: ARG001 - there is one worker
) -> Iterator[Result]:
    """Work through the items one by one."""
    return (function(item) for item in items)


def threads(
    function: Callable[[Item], Result], items: Sequence[Item], n_jobs: int | None
) -> Iterator[Result]:
    """Share the items among threads: nothing is copied, and nothing can hang on start-up."""
    return _joblib(function, items, {"backend": "threading", "n_jobs": n_jobs})


def processes(
    function: Callable[[Item], Result], items: Sequence[Item], n_jobs: int | None
) -> Iterator[Result]:
    """Share the items among processes; large arrays are passed on as memory maps."""
    # `threadpool_limits` acts in this process only; workers load a BLAS of their own.
    one_thread = {"inner_max_num_threads": 1}
    return _joblib(function, items, {"backend": "loky", "n_jobs": n_jobs, **one_thread})


def _joblib(
    function: Callable[[Item], Result], items: Sequence[Item], config: dict[str, Any]
) -> Iterator[Result]:
    with joblib.parallel_config(**config):
        tasks = (joblib.delayed(function)(item) for item in items)
        # A generator yields results in order as they come, so the progress bar moves.
        yield from joblib.Parallel(return_as="generator")(tasks)


@contextmanager
def one_level_of_threads(size: float = float("inf")) -> Iterator[None]:
    """Run linear algebra on one thread, and `side_by_side` on as many as that could have used.

    Threads of linear algebra wait for each other and spin meanwhile: beside another busy program
    they make a fit several times slower. And sums round differently with their number. `size` is
    how many numbers there are to work at: few are worked at by one thread.
    """
    blas = ThreadpoolController().select(user_api="blas")
    # NumPy and SciPy may each bring a BLAS; the most restricted one counts.
    available = min((library["num_threads"] for library in blas.info()), default=1)
    token = _WORKERS.set(available if size >= _WORTH_THREADS else 1)
    try:
        with blas.limit(limits=1):
            yield
    finally:
        _WORKERS.reset(token)


def side_by_side(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Work at several items at once inside `one_level_of_threads`, elsewhere at one.

    Results come in the order of the items. Few items are ahead of the caller at any time: joblib
    would go on, and results that wait could fill the memory.
    """
    workers = _WORKERS.get()
    if workers < 2:
        yield from map(function, items)
        return
    # Its threads end with the process: an interrupt does not wait for them.
    with ThreadPool(workers) as pool:
        waiting: deque[AsyncResult[Result]] = deque()
        for item in items:
            waiting.append(pool.apply_async(function, (item,)))
            if len(waiting) >= 2 * workers:
                yield waiting.popleft().get()
        while waiting:
            yield waiting.popleft().get()


_WORKERS: ContextVar[int] = ContextVar("workers", default=1)
"""A new thread does not inherit it, so that work inside of an item is never shared out again."""
