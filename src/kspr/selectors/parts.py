"""Rows of features in parts, wherever they are, and the map over them.

A selector sees `map`, which runs a task on every block of rows, and `take`, which gathers a few of
them. A block is an array ``(rows, features)`` in single or double precision, or rows of a sparse
matrix; half precision and memory-mapped files are widened a block at a time, never as a whole.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from multiprocessing.pool import AsyncResult, ThreadPool
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeAlias

import joblib
import numpy as np
import scipy.sparse as sp
from threadpoolctl import ThreadpoolController

from kspr._files import drop_pages, mapped_file
from kspr._progress import Progress, ProgressMode
from kspr.errors import InputError

if TYPE_CHECKING:
    from kspr.selectors.cluster import DaskFeatures

_BLOCK_FLOATS = 1 << 20
"""Numbers of a block: its features, and what a task makes of them."""
_BLOCK_ROWS = 1 << 13
"""Rows of a block, at most: tasks make more of a row than its features."""
_FIT_BLOCK_BYTES = 16 << 20
"""Size of the blocks of gathered rows. It is fixed, because sums over blocks round by it."""
_SMALL_WIDTH = 1000
"""Columns of a sparse matrix up to which its covariance matrix is formed."""
_FOLDED = 64
"""States that are joined at a time."""


Columns = dict[str, np.ndarray]
"""Values of neighbouring rows, by name."""
Result = tuple[Any, Columns]
"""A state, or None, and columns. A state is sums over rows; its class method `joined` returns that
of all rows, given those of neighbouring blocks in the order of the rows."""
Task = Callable[..., Result]
"""What is done with a block: called with its features, and its rows of some columns.

Cluster workers get it by a pickle: it is a function of a module, or an object of its class.
"""


Each = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""Apply a function to every item, maybe to several at once; results come in their order."""
Features: TypeAlias = "HostFeatures | DaskFeatures"
"""Rows of features of this process, or of a cluster."""


class HostFeatures:
    """Features of this process: an array, a memory map, or a sparse matrix in row order."""

    def __init__(self, X: Any, each: Each = map, progress: ProgressMode = False) -> None:
        self.sparse = sp.issparse(X)
        self._X = sp.csr_array(X) if self.sparse else X
        narrow = self._X.dtype in (np.float32, np.float16)
        self.dtype = np.dtype(np.float32 if narrow else np.float64)
        self.each, self._progress = each, progress

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return (int(self._X.shape[0]), int(self._X.shape[1]))

    @property
    def matrix(self) -> Any:
        """All rows as they are stored."""
        return self._X

    def map(
        self, task: Task, *columns: np.ndarray | range, extra: int = 0, what: str = ""
    ) -> Result:
        """Run `task` on every block; return the state and the columns of all rows.

        `columns` have one entry per row, and `task` gets those of its block. `extra` is how many
        numbers a row takes besides its features. `what` is shown as the name of the pass.
        """
        n, p = self.shape
        step = block_rows(p + extra)
        blocks = [slice(start, min(start + step, n)) for start in range(0, n, step)]

        def work(rows: slice) -> Result:
            return task(self.read(rows), *(column[rows] for column in columns))

        results = zip(blocks, self.each(work, blocks), strict=True)
        with Progress(self._progress, what, len(blocks)) as progress:
            return fold(results, n, progress.advance)

    def read(self, rows: slice) -> Any:
        """Return neighbouring rows."""
        block = self._X[rows].astype(self.dtype, copy=False)
        if not self.sparse and mapped_file(self._X) is not None:
            if np.may_share_memory(block, self._X):
                # A copy, because the pages themselves are dropped.
                block = block.copy()
            drop_pages(self._X)
        return block

    def take(self, rows: np.ndarray) -> np.ndarray:
        """Return the rows with these numbers, dense, in their order."""
        if self.sparse:
            return np.asarray(self._X[rows].toarray(), dtype=self.dtype)
        if mapped_file(self._X) is None:
            return np.asarray(self._X[rows]).astype(self.dtype, copy=False)
        # Read in the order of the file: every page once, and few at a time.
        order = np.argsort(rows, kind="stable")
        taken = np.empty((len(rows), self.shape[1]), dtype=self.dtype)
        step = max(256, _FIT_BLOCK_BYTES // (4 * max(1, self.shape[1])))
        borders = np.searchsorted(rows[order], np.arange(0, self.shape[0] + step, step))
        for first, last in pairwise(borders.tolist()):
            here = order[first:last]
            if len(here):
                taken[here] = self._X[rows[here]]
                drop_pages(self._X)
        return taken

    def gathered(self, rows: np.ndarray) -> tuple["HostFeatures", np.ndarray]:
        """Return features of this process, and the numbers of the rows in them: all as it is."""
        return self, rows

    def column(self, values: Any) -> Any:
        """Return a column of all rows, such as the labels, as this process can read it."""
        return values

    def beside(self, values: np.ndarray) -> "HostFeatures":
        """Return other numbers of the same rows, worked at by the same threads."""
        return HostFeatures(values, self.each, self._progress)

    def transformed(self, transformer: Any) -> "HostFeatures":
        """Return all rows as the user's fitted transformer sees them."""
        if self.sparse:
            # As one sparse matrix: dense blocks are what such transformers are there to avoid.
            rows = np.asarray(transformer.transform(self._X))
        else:
            blocks = (block for _, block in self.chosen_blocks(None))
            rows = np.concatenate([np.asarray(transformer.transform(block)) for block in blocks])
        return self.beside(rows)

    def reduced(self, d: int, seed: int) -> "HostFeatures":
        """Return all rows of a sparse matrix in `d` principal components."""
        return self.beside(sparse_components(self._X, d, seed))

    def chosen_blocks(
        self, rows: np.ndarray | None, block_bytes: int = _FIT_BLOCK_BYTES
    ) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield the given rows in blocks, and where these stand in `rows`, which ascends.

        None for all rows. Blocks have the same sizes whatever the rows are a part of: so have the
        sums over them that a fit needs.
        """
        n = self.shape[0] if rows is None else len(rows)
        step = max(256, block_bytes // (4 * max(1, self.shape[1])))
        for start in range(0, n, step):
            here = slice(start, min(start + step, n))
            first = start if rows is None else int(rows[start])
            whole = slice(first, first + here.stop - start)
            # Neighbouring rows are not copied. One may stand twice: a count would not tell.
            if rows is None or np.array_equal(rows[here], np.arange(whole.start, whole.stop)):
                yield here, self.read(whole)
            else:
                yield here, self.take(rows[here])


def sparse_components(rows: Any, d: int, seed: int) -> np.ndarray:
    """Return principal components of a sparse matrix, which stays sparse."""
    n, p = rows.shape
    # The two solvers of scikit-learn that centre a sparse matrix without making it dense.
    solver = "covariance_eigh" if p <= _SMALL_WIDTH else "arpack"
    # arpack finds fewer components than there are rows.
    d = min(d, n, p) if p <= _SMALL_WIDTH else min(d, n - 1)
    # Imported here: a saved selection is read without scikit-learn, which takes long to load.
    from sklearn import decomposition

    pca = decomposition.PCA(n_components=d, svd_solver=solver, random_state=seed)
    return np.asarray(pca.fit_transform(rows))


def block_rows(width: int) -> int:
    """Return the rows of a block, for rows that take `width` numbers each."""
    return min(_BLOCK_ROWS, max(64, _BLOCK_FLOATS // max(1, width)))


def is_dask(values: Any) -> bool:
    """Return whether `values` is a Dask array, data frame or series, without importing Dask."""
    package = type(values).__module__.partition(".")[0]
    return package in ("dask", "dask_expr") and hasattr(values, "dask")


def fold(
    results: Iterable[tuple[slice, Result]], n_rows: int, advance: Callable[[], None]
) -> Result:
    """Return the state and the columns of all rows, given those of each part, in their order."""
    states: list[Any] = []
    columns: Columns = {}
    for rows, (state, part) in results:
        states.append(state)
        if len(states) == _FOLDED:
            states = [joined(states)]
        for name, values in part.items():
            if name not in columns:
                columns[name] = np.empty((n_rows, *values.shape[1:]), dtype=values.dtype)
            columns[name][rows] = values
        advance()
    return joined(states), columns


def joined(states: Sequence[Any]) -> Any:
    """Return the state of all rows; None where tasks have none."""
    known = [state for state in states if state is not None]
    return known[0].joined(known) if len(known) > 1 else known[0] if known else None


_MOST_THREADS = 256
"""Threads that are started at most; an answer does not depend on their number."""
_WORTH_THREADS = 5e6
"""Numbers in the features from which on several threads gain more than they lose.

Below, handing out the work takes as long as they save; and beside another busy program, a thread
that waits for its turn while it holds Python's lock makes the others wait too.
"""


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
        if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs == 0:
            raise InputError(f"n_jobs must be a number of threads, or -1 for all, got {n_jobs!r}.")
        workers = min(int(joblib.effective_n_jobs(n_jobs)), _MOST_THREADS)
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
    def each(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        # Its threads end with the process: an interrupt does not wait for them.
        with ThreadPool(workers) as pool:
            # Few items are ahead of the caller: results that wait could fill the memory.
            waiting: deque[AsyncResult[Any]] = deque()
            for item in items:
                waiting.append(pool.apply_async(function, (item,)))
                if len(waiting) >= 2 * workers:
                    yield waiting.popleft().get()
            while waiting:
                yield waiting.popleft().get()

    return each
