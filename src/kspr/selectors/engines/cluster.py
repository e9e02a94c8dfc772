"""A Dask cluster: work goes to the blocks of rows, and small states come back.

Blocks are pure functions of where their rows come from, and states are merged in the order of the
blocks: so the answer depends neither on the number of workers nor on the loss of some of them.
"""

import ctypes
import io
import logging
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from typing import Any

from threadpoolctl import ThreadpoolController

from kspr._packages import require
from kspr._progress import Progress
from kspr.errors import InputError

__all__ = [
    "Cluster",
    "Recipe",
    "is_dask",
    "kept_memory",
    "local_cluster",
    "made",
    "on_worker",
    "one_blas_thread",
]

_PURPOSE, _EXTRA = "engine='dask'", "'knockoffs-spr[dask]'"
_ANSWER_WITHIN = 5.0
"""Seconds in which a scheduler must answer."""
_PATIENCE = 20.0
"""Seconds without any worker after which the work is given up; workers that restart take less."""
_POLL = 0.5
_RETRIES = 3
_FAN_IN = 8
"""States that one task merges."""
_RECIPE = 1 << 16
"""Bytes of a recipe, at most; a longer one has data in it, which must not be sent in every pass."""
_HELD_SHARE = 0.4
"""Share of the memory of all workers that rows may take; the rest is for work on them."""
_TRIM_VARIABLE = "MALLOC_TRIM_THRESHOLD_"
_KEEP_FREE, _LARGEST_KEPT, _USUAL_MMAP = 256 << 20, 32 << 20, 128 << 10
"""Bytes: free memory that a task keeps, the largest arrays that it is kept of, which is also the
largest number that the C library takes, and what that number is without us."""


def is_dask(values: Any) -> bool:
    """Return whether `values` is a Dask array, data frame or series, without importing Dask."""
    package = type(values).__module__.partition(".")[0]
    return package in ("dask", "dask_expr") and hasattr(values, "dask")


class Recipe:
    """How a value is made, by the task that needs it.

    No dataclass, nor a tuple: Dask looks into these for tasks of its own.
    """

    def __init__(self, tasks: dict[Any, Any], key: Any) -> None:
        self._tasks, self._key = tasks, key

    def make(self) -> Any:
        """Return the value."""
        return require("dask.local", _PURPOSE, _EXTRA).get_sync(self._tasks, self._key)


def _recipe(needed: dict[Any, Any], key: Any) -> Recipe | None:
    """Return how `key` is made; None if that takes results of the cluster, or is full of data."""
    future = require("distributed", _PURPOSE, _EXTRA).Future
    pickled, results = io.BytesIO(), []
    pickler = require("cloudpickle", _PURPOSE, _EXTRA).Pickler(pickled)
    # Called with every object that is pickled: results may be anywhere in the arguments of tasks.
    pickler.persistent_id = lambda value: results.append(value) if type(value) is future else None
    pickler.dump(needed)
    return None if results or pickled.tell() > _RECIPE else Recipe(needed, key)


def _share_work(graphs: Sequence[dict[Any, Any]]) -> bool:
    """Return whether a task is part of several graphs, such as a mean over all of them."""
    tasks = (
        key
        for graph in graphs
        for key, node in graph.items()
        # A tuple in earlier versions of Dask; other nodes are data, or other names of nodes.
        if isinstance(node, tuple) or callable(getattr(node, "func", None))
    )
    return any(times > 1 for times in Counter(tasks).values())


def made(value: Any) -> Any:
    """Return a value, made here if it came as a recipe."""
    return value.make() if isinstance(value, Recipe) else value


class Cluster:
    """The workers behind a `distributed.Client`."""

    def __init__(self, client: Any, *, patience: float = _PATIENCE) -> None:
        self._client, self._patience = client, patience

    @classmethod
    def current(cls, client: Any = None) -> "Cluster":
        """Return the cluster of `client`, or of the client that was made last."""
        distributed = require("distributed", _PURPOSE, _EXTRA)
        if client is None:
            try:
                client = distributed.default_client()
            except ValueError as error:
                raise InputError(
                    "engine='dask' needs a client, and there is none. Make one first with "
                    "dask.distributed.Client(...), or pass it as client=."
                ) from error
        return cls(client)

    @classmethod
    @contextmanager
    def at(cls, address: str) -> Iterator["Cluster"]:
        """Connect to the scheduler at an address such as ``tcp://10.0.0.1:8786``."""
        distributed = require("distributed", _PURPOSE, _EXTRA)
        try:
            client = distributed.Client(address, timeout=_ANSWER_WITHIN, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise InputError(
                f"No Dask scheduler answers at {address}. Start one with `dask scheduler`, and "
                "name the address that it prints."
            ) from error
        with client:
            yield cls(client)

    @property
    def n_workers(self) -> int:
        """Workers that are there now."""
        return len(self._client.ncores())

    def keep(self, value: Any) -> Any:
        """Return a value that workers can be given many times and is sent to each of them once.

        It is kept as a task: what is scattered would be lost together with its worker.
        """
        return self._client.submit(_same, value, pure=False)

    def each(
        self,
        function: Callable[..., Any],
        blocks: Sequence[Sequence[Any]],
        *shared: Any,
        n_results: int | None = None,
    ) -> list[Any]:
        """Return the results of ``function(*block, *shared)`` for each block, as they will be.

        With `n_results` a function returns that many values, each of which can be used alone.
        """
        dask = require("dask", _PURPOSE, _EXTRA)
        task = dask.delayed(function, pure=False, nout=n_results)
        made = [task(*block, *shared) for block in blocks]
        if n_results is None:
            return list(self._client.compute(made, retries=_RETRIES))
        flat = [part for results in made for part in results]
        futures = self._client.compute(flat, retries=_RETRIES)
        return [tuple(futures[i : i + n_results]) for i in range(0, len(futures), n_results)]

    def lazily(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return a value that workers make when they need it, and forget afterwards."""
        return require("dask", _PURPOSE, _EXTRA).delayed(function, pure=False)(*arguments)

    def inlined(self, values: Sequence[Any]) -> list[Any]:
        """Return what `lazily` has returned as recipes that each task follows by itself.

        Otherwise Dask makes a value first and then moves it to whoever is idle, although making it
        again there would be quicker. Values that have work in common, that need others of the
        cluster, or that hold data, stay as they are.
        """
        graphs = [value.__dask_graph__() for value in values]
        if not graphs or not all(hasattr(graph, "layers") for graph in graphs):
            return list(values)
        cull = require("dask.optimization", _PURPOSE, _EXTRA).cull
        tasks = dict(type(graphs[0]).merge(*graphs))
        needed = [cull(tasks, [value.key])[0] for value in values]
        if _share_work(needed):
            return list(values)
        made = [_recipe(graph, value.key) for graph, value in zip(needed, values, strict=True)]
        return list(values) if None in made else made

    def held(self, values: Sequence[Any], n_bytes: float) -> list[Any]:
        """Return what `lazily` has returned as values that are made once, and then held.

        Unless they are too large for that, all together: then they are made whenever they are
        needed. A value whose worker is lost is made again.
        """
        there = sorted(self._client.ncores())
        if not there or n_bytes > _HELD_SHARE * self._memory():
            return list(values)
        made: list[Any] = [None] * len(values)
        # In turn: work is handed out in the order of the values, and a worker that had the first
        # ones would look busy to Dask, which then moves values to others.
        for number, address in enumerate(there[: len(values)]):
            made[number :: len(there)] = self._client.compute(
                list(values[number :: len(there)]),
                retries=_RETRIES,
                workers=[address],
                # That worker may be lost.
                allow_other_workers=True,
            )
        return made

    def _memory(self) -> float:
        """Return the bytes that all workers may use together."""
        workers = self._client.scheduler_info()["workers"].values()
        # A worker without a limit says 0 or None.
        return float(sum(worker.get("memory_limit") or math.inf for worker in workers))

    def once(self, function: Callable[..., Any], *arguments: Any, place: int | None = None) -> Any:
        """Return the result, as it will be, of a function that runs on one of the workers.

        Work of different `place`s goes to different workers, while there are as many.
        """
        there = sorted(self._client.ncores())
        if place is None or not there:
            return self._client.submit(function, *arguments, pure=False, retries=_RETRIES)
        return self._client.submit(
            function,
            *arguments,
            pure=False,
            retries=_RETRIES,
            workers=[there[place % len(there)]],
            # That worker may be lost.
            allow_other_workers=True,
        )

    def merged(self, merge: Callable[..., Any], states: Sequence[Any]) -> Any:
        """Return what `merge` makes of all states, neighbours first, in a fixed order."""
        states = list(states)
        while len(states) > 1:
            states = [
                self.once(merge, *states[i : i + _FAN_IN])
                if len(states[i : i + _FAN_IN]) > 1
                else states[i]
                for i in range(0, len(states), _FAN_IN)
            ]
        return states[0]

    def result(self, future: Any, progress: Progress | None = None) -> Any:
        """Wait for a result; raise `InputError` if there is nobody left who could compute it."""
        return self.results([future], progress)[0]

    def results(self, futures: Sequence[Any], progress: Progress | None = None) -> list[Any]:
        """Wait for results."""
        self.finish(futures, progress)
        return list(self._client.gather(list(futures)))

    def finish(self, futures: Sequence[Any], progress: Progress | None = None) -> None:
        """Wait until all results are there; they stay where they are."""
        distributed = require("distributed", _PURPOSE, _EXTRA)
        alone_since, done = None, 0
        while not all(future.done() for future in futures):
            # `wait` looks for the current client, which need not be this one.
            with suppress(TimeoutError), self._client.as_current():
                distributed.wait(list(futures), timeout=_POLL)
            finished = sum(future.done() for future in futures)
            for _ in range(finished - done):
                if progress is not None:
                    progress.advance()
            done = finished
            alone_since = self._check_alive(alone_since)
        for future in futures:
            if future.status == "error":
                raise _as_sentence(future.exception()) from future.exception()

    def _check_alive(self, alone_since: float | None) -> float | None:
        """Return since when there is no worker; None if there is one."""
        try:
            if self.n_workers:
                return None
        except (OSError, ValueError) as error:
            raise InputError(
                "The Dask scheduler does not answer any more. Start the same command again when "
                "the cluster is back: what was finished is not done again."
            ) from error
        now = time.monotonic()
        alone_since = alone_since or now
        if now - alone_since > self._patience:
            raise InputError(
                "All workers of the Dask cluster are lost. Start the same command again when there "
                "are workers: what was finished is not done again."
            )
        return alone_since


def _same(value: Any) -> Any:
    return value


def _as_sentence(error: BaseException) -> BaseException:
    """Return the error, or a sentence for one that says nothing about the data."""
    if type(error).__name__ == "KilledWorker":
        return InputError(
            "A block of rows ended every worker that worked at it, most likely because it does not "
            "fit into their memory. Cut the data into smaller partitions."
        )
    return error


@contextmanager
def local_cluster(n_workers: int | None = None) -> Iterator[Cluster]:
    """Start a cluster of processes on this machine, one thread each; None for one per core."""
    distributed = require("distributed", _PURPOSE, _EXTRA)
    with (
        distributed.LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=True,
            # No port that nobody has asked for.
            dashboard_address=None,
            # What goes wrong on a worker is raised here; its log would say it again.
            silence_logs=logging.CRITICAL,
        ) as cluster,
        # On one machine all reach all; elsewhere results may have to pass the scheduler.
        distributed.Client(cluster, set_as_default=False, direct_to_workers=True) as client,
    ):
        yield Cluster(client)


def on_worker(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function as workers run it: one thread of linear algebra, and quick memory.

    Arguments that come as recipes are made first.
    """

    @wraps(function)
    def run(*arguments: Any) -> Any:
        with one_blas_thread(), kept_memory():
            return function(*map(made, arguments))

    return run


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run linear algebra on one thread: sums round differently with the number of threads.

    Dask's nannies start workers with one thread of linear algebra; this is for other workers. Every
    task sets the limit for itself, because OpenBLAS keeps limits thread by thread.
    """
    with ThreadpoolController().select(user_api="blas").limit(limits=1):
        yield


@contextmanager
def kept_memory() -> Iterator[None]:
    """Keep memory that is freed for the next arrays, and give it back at the end.

    Dask's nannies start workers with ``MALLOC_TRIM_THRESHOLD_``, and then the C library gives every
    array of more than 128 KB back to the system at once. The next block asks for it again, page by
    page, which took more than half of the time of a pass.
    """
    library = _c_library()
    trim = os.environ.get(_TRIM_VARIABLE, "")
    if library is None or not trim.isdecimal():
        yield
        return
    _set_thresholds(library, trim=_KEEP_FREE, mmap=_LARGEST_KEPT)
    try:
        yield
    finally:
        _set_thresholds(library, trim=int(trim), mmap=_USUAL_MMAP)
        library.malloc_trim(0)


def _set_thresholds(library: ctypes.CDLL, *, trim: int, mmap: int) -> None:
    # Numbers of the options from malloc.h: M_TRIM_THRESHOLD and M_MMAP_THRESHOLD.
    library.mallopt(-1, trim)
    library.mallopt(-3, mmap)


def _c_library() -> ctypes.CDLL | None:
    """Return the C library if its memory can be tuned: that of most Linux systems."""
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None
