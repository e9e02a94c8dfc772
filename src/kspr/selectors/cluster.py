"""Features on many machines: the partitions of a Dask array or data frame are parts.

Workers run the same tasks on their partitions as threads do on blocks of this process; states and
columns of rows come back, and the rows that are fitted. Retries and lost workers are Dask's job.
"""

import asyncio
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import Any, Self

import numpy as np

from kspr._packages import require
from kspr._progress import Progress, ProgressMode
from kspr.errors import InputError
from kspr.selectors.parts import Each, HostFeatures, Result, Task, fold, is_dask, one_blas_thread

_PURPOSE, _EXTRA = "A Dask cluster", "'knockoffs-spr[dask]'"
_ANSWER_WITHIN = 5.0
"""Seconds in which a scheduler must answer."""
_PATIENCE = 20.0
"""Seconds without any worker after which the work is given up; workers that restart take less."""
_POLL = 0.5
_KEEP_MEMORY = {
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
}
"""Dask's workers give every freed array back to the system, and get it again page by page. So set,
they keep it for the next one; without, that took more than half of a pass."""
_RETRIES = 3


class DaskFeatures:
    """Features whose rows are partitions that workers hold or make."""

    sparse = False

    def __init__(
        self,
        client: Any,
        parts: Sequence[Any],
        lengths: Sequence[int],
        n_features: int,
        each: Each = map,
        progress: ProgressMode = False,
    ) -> None:
        """`parts` are delayed arrays of `lengths` rows each, none of them without rows."""
        self.client, self._parts, self._lengths = client, parts, lengths
        self._ends = np.cumsum(lengths)
        self.shape = (int(self._ends[-1]), n_features)
        self._each, self._progress = each, progress

    @classmethod
    def of(cls, X: Any, client: Any, each: Each, progress: ProgressMode) -> Self:
        """Return a Dask array or data frame as features; only missing lengths are computed."""
        if isinstance(X, cls):
            return cls(X.client, X._parts, X._lengths, X.shape[1], each, progress)
        if not is_dask(X):
            raise InputError(
                "client goes with X as a Dask array or a Dask data frame, got "
                f"{type(X).__name__}. Leave client out for data of this process."
            )
        client = _current(client)
        if X.ndim != 2:
            raise InputError(f"X must have two dimensions (rows, features), got {X.ndim}.")
        if hasattr(X, "chunks") and X.numblocks[1] > 1:
            # A row is worked at as a whole.
            X = X.rechunk({1: -1})
        blocks = np.ravel(np.asarray(X.to_delayed(), dtype=object)).tolist()
        known = X.chunks[0] if hasattr(X, "chunks") else (np.nan,)
        lengths = [int(n) for n in known] if not np.isnan(known).any() else None
        if lengths is None:
            lengths = list(results(client, calls(len, blocks)))
        parts = [block for block, n in zip(blocks, lengths, strict=True) if n]
        lengths = [n for n in lengths if n]
        if sum(lengths) < 2:
            raise InputError(f"X has {sum(lengths)} rows; a selection needs at least two.")
        return cls(client, parts, lengths, int(X.shape[1]), each, progress)

    def map(
        self, task: Task, *columns: np.ndarray | range, extra: int = 0, what: str = ""
    ) -> Result:
        """Run `task` on every block of every part; return the state and columns of all rows."""
        rows = [slice(*ends) for ends in pairwise([0, *self._ends.tolist()])]
        parts = zip(self._parts, rows, strict=True)
        work = [(part, *(column[own] for column in columns)) for part, own in parts]
        tasks = calls(_run, work, task, extra)
        with Progress(self._progress, what, len(tasks)) as progress:
            answers = zip(rows, results(self.client, tasks), strict=True)
            return fold(answers, self.shape[0], progress.advance)

    def take(self, rows: np.ndarray) -> np.ndarray:
        """Return the rows with these numbers, in their order."""
        return np.asarray(self.beside(self._stored(rows)).read(slice(None)))

    def _stored(self, rows: np.ndarray) -> np.ndarray:
        """Return the rows with these numbers as they are stored: wider numbers would travel."""
        order = np.argsort(rows, kind="stable")
        places = np.split(order, np.searchsorted(rows[order], self._ends[:-1]))
        starts = self._ends - self._lengths
        work = [
            (part, rows[place] - start)
            for part, place, start in zip(self._parts, places, starts, strict=True)
            if len(place)
        ]
        chosen = np.concatenate(list(results(self.client, calls(_take, work))))
        taken = np.empty_like(chosen)
        taken[order] = chosen
        return taken

    def gathered(self, rows: np.ndarray) -> tuple[HostFeatures, np.ndarray]:
        """Return the given rows as features of this process."""
        return self.beside(self._stored(rows)), np.arange(len(rows))

    def beside(self, values: np.ndarray) -> HostFeatures:
        """Return other numbers of the same rows, in this process, as features."""
        return HostFeatures(values, self._each, self._progress)

    def column(self, values: Any) -> Any:
        """Return a column of all rows in this process."""
        if not is_dask(values):
            return values
        (column,) = results(self.client, [require("dask", _PURPOSE, _EXTRA).delayed(values)])
        return np.asarray(column)


def _run(part: Any, *arguments: Any) -> Result:
    """Run a task on a partition, on a worker: `arguments` are columns, the task, and `extra`."""
    *columns, task, extra = arguments
    X = np.asarray(part)
    if X.dtype.kind not in "fiub":
        raise InputError(f"X holds {X.dtype} in one of its partitions, not numbers.")
    # Sums round differently with the number of threads.
    with one_blas_thread():
        return HostFeatures(X).map(task, *columns, extra=extra)


def _take(part: Any, rows: np.ndarray) -> np.ndarray:
    return np.asarray(np.asarray(part)[rows])


def calls(function: Any, work: Sequence[Any], *shared: Any) -> list[Any]:
    """Return the calls of a function with each item of `work`, for `results` to make.

    An item is a tuple of arguments, or the only one. `shared` arguments, which come last, are sent
    to a worker once.
    """
    delayed = require("dask", _PURPOSE, _EXTRA).delayed
    # As a part of the graph: what is scattered would be lost together with its worker.
    kept = [delayed(value, pure=False, traverse=False) for value in shared]
    call = delayed(function, pure=False, traverse=False)
    return [call(*(item if isinstance(item, tuple) else (item,)), *kept) for item in work]


def results(client: Any, tasks: Sequence[Any]) -> Iterator[Any]:
    """Make `calls`, and yield their results in order.

    Raise `InputError` if there is nobody left who could compute them.
    """
    distributed = require("distributed", _PURPOSE, _EXTRA)
    with warnings.catch_warnings():
        # Columns travel with their parts, a few bytes a row: that is no data to be loaded by Dask.
        warnings.filterwarnings("ignore", message="Sending large graph")
        futures = client.compute(list(tasks), retries=_RETRIES)
    seen = time.monotonic()
    try:
        for number, future in enumerate(futures):
            while not future.done():
                with suppress(TimeoutError), client.as_current():
                    distributed.wait([future], timeout=_POLL)
                seen = _last_seen(client, seen)
            if future.status == "error":
                error = future.exception()
                if type(error).__name__ != "KilledWorker":
                    raise error
                raise InputError(
                    "A partition ended every worker that worked at it, most likely because it does "
                    "not fit into their memory. Cut the data into smaller partitions."
                ) from error
            yield future.result()
            # What has come is not held by workers any longer.
            futures[number] = None
    finally:
        client.cancel([future for future in futures if future is not None])


def _last_seen(client: Any, before: float) -> float:
    """Return when there was a worker last; raise `InputError` if that is too long ago."""
    now = time.monotonic()
    try:
        if client.ncores():
            return now
    except (OSError, ValueError) as error:
        raise InputError(
            "The Dask scheduler does not answer any more. Start again when the cluster is back."
        ) from error
    if now - before > _PATIENCE:
        raise InputError(
            "All workers of the Dask cluster are lost. Start again when there are workers."
        )
    return before


def _current(client: Any) -> Any:
    """Return the client, or the one that was made last."""
    if client is not None:
        return client
    try:
        return require("distributed", _PURPOSE, _EXTRA).default_client()
    except ValueError as error:
        raise InputError(
            "X is a Dask collection, and there is no client. Make one first with "
            "dask.distributed.Client(...), or pass it as client=."
        ) from error


@contextmanager
def opened_client(scheduler: str) -> Iterator[Any]:
    """Connect to the scheduler at an address, or start processes here for ``"local"``."""
    distributed = require("distributed", _PURPOSE, _EXTRA)
    if scheduler == "local":
        # No port that nobody has asked for.
        options = {"threads_per_worker": 1, "dashboard_address": None}
        config = require("dask", _PURPOSE, _EXTRA).config
        # The C library reads them when a process starts.
        name = "distributed.nanny.pre-spawn-environ"
        with (
            config.set({name: {**config.get(name), **_KEEP_MEMORY}}),
            distributed.LocalCluster(processes=True, **options) as cluster,
            distributed.Client(cluster, set_as_default=False) as client,
        ):
            yield client
        return
    try:
        # In a thread: a notebook has a loop of its own. Asked before a client is made, because one
        # that finds nobody waits without end, or ends in a traceback.
        with ThreadPoolExecutor(1) as pool:
            pool.submit(asyncio.run, _ask(scheduler)).result()
        client = distributed.Client(scheduler, timeout=_ANSWER_WITHIN, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(
            f"No Dask scheduler answers at {scheduler}. Start one with `dask scheduler`, and "
            "name the address that it prints."
        ) from error
    with client:
        yield client


async def _ask(scheduler: str) -> None:
    """Raise an error unless a scheduler answers at an address in time."""
    distributed = require("distributed", _PURPOSE, _EXTRA)
    async with asyncio.timeout(_ANSWER_WITHIN), distributed.rpc(scheduler) as answering:
        await answering.identity()
