"""Engines on this machine: one item after the other, threads, or processes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import joblib
from threadpoolctl import ThreadpoolController

__all__ = ["one_level_of_threads", "processes", "serial", "side_by_side", "threads"]

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
    function: Callable[[Item], Result], items: Iterable[Item], n_jobs: int | None
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
    function: Callable[[Item], Result], items: Iterable[Item], config: dict[str, Any]
) -> Iterator[Result]:
    with joblib.parallel_config(**config):
        tasks = (joblib.delayed(function)(item) for item in items)
        # A generator yields results in order as they come, so the progress bar moves.
        yield from joblib.Parallel(return_as="generator")(tasks)


@contextmanager
def one_level_of_threads() -> Iterator[None]:
    """Run linear algebra on one thread, and `side_by_side` on as many as that could have used.

    Threads of linear algebra wait for each other and spin meanwhile: beside another busy program
    they make a fit several times slower. And sums round differently with their number.
    """
    blas = ThreadpoolController().select(user_api="blas")
    # NumPy and SciPy may each bring a BLAS; the most restricted one counts.
    available = min((library["num_threads"] for library in blas.info()), default=1)
    token = _WORKERS.set(available)
    try:
        with blas.limit(limits=1):
            yield
    finally:
        _WORKERS.reset(token)


def side_by_side(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Work at several items at once inside `one_level_of_threads`, elsewhere at one."""
    workers = _WORKERS.get()
    return map(function, items) if workers < 2 else threads(function, items, workers)


_WORKERS: ContextVar[int] = ContextVar("workers", default=1)
"""A new thread does not inherit it, so that work inside of an item is never shared out again."""
