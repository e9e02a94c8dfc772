"""Engines on this machine: one item after the other, threads, or processes."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import joblib
from threadpoolctl import ThreadpoolController

__all__ = ["blockwise", "processes", "serial", "side_by_side", "threads"]

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


def side_by_side(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Work at all items at once, in threads that share out those of the linear algebra.

    Everything between the products runs in parallel then as well, and no thread of a product
    waits for one that other programs hold up. Where there is nothing to share, do one by one.
    """
    blas = ThreadpoolController().select(user_api="blas")
    # NumPy and SciPy may each bring a BLAS; the most restricted one counts.
    available = min((library["num_threads"] for library in blas.info()), default=1)
    if available < 2:
        yield from serial(function, items, None)
        return
    with blas.limit(limits=max(1, available // len(items))):
        yield from threads(function, items, len(items))


def blockwise(function: Callable[[Item], Result], blocks: Sequence[Item]) -> Iterator[Result]:
    """Work through blocks of rows, as many at once as linear algebra could use threads.

    Each of them has one thread: sums round differently with their number, so that the answer would
    depend on the machine.
    """
    blas = ThreadpoolController().select(user_api="blas")
    available = min((library["num_threads"] for library in blas.info()), default=1)
    with blas.limit(limits=1):
        if available < 2 or len(blocks) < 2:
            yield from serial(function, blocks, None)
        else:
            yield from threads(function, blocks, available)
