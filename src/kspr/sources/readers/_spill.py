"""Rows of unknown number: in memory while they are few, then in a temporary file.

The file is removed when the array in it is no longer used, or when the program ends.
"""

import errno
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any

import numpy as np
import pyarrow as pa

from kspr.sources.readers.file_checks import no_room
from kspr.sources.readers.table import Cells, in_memory

__all__ = ["IN_MEMORY", "RowSink", "keep", "map_bytes", "room", "scratch_file"]

IN_MEMORY = 256 << 20
"""Bytes above which rows go to a file."""


def scratch_file() -> IO[bytes]:
    """Return a named temporary file; it is removed when it is closed or no longer used."""
    # Named, because Arrow opens files by name.
    return tempfile.NamedTemporaryFile(prefix=".kspr-", suffix=".rows")


def map_bytes(
    file: IO[bytes], dtype: np.dtype[Any], shape: tuple[int, ...], offset: int = 0, order: Any = "C"
) -> np.ndarray:
    """Return the file as a read-only memory map; the map keeps the file from being removed."""
    with room():
        file.flush()
    array = np.memmap(file, dtype=dtype, mode="r", shape=shape, offset=offset, order=order)
    # The map is the base of every view, so that a slice keeps the file as well as the whole does.
    weakref.finalize(array.base, file.close)
    return array


@contextmanager
def room() -> Iterator[None]:
    """Turn the error of a full disk into an `InputError`."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise no_room() from error
        raise


def _write(file: IO[bytes], block: np.ndarray) -> None:
    with room():
        file.write(block.data)


class RowSink:
    """Collects blocks of rows, one after the other, into one array."""

    def __init__(self, width: int, dtype: np.dtype[Any], rows: int | None = None) -> None:
        self._width = width
        self._dtype = dtype
        self._rows = 0
        self._file: IO[bytes] | None = None
        self._array = np.empty((0, width), dtype)
        if rows is not None:
            self._reserve(rows)

    def append(self, block: np.ndarray) -> None:
        """Add a block of shape ``(rows, width)``."""
        end = self._rows + len(block)
        if end > len(self._array) and self._file is None:
            # By half as much again: work stays in proportion to rows, and at most a third is spare.
            self._reserve(max(end, len(self._array) * 3 // 2))
        if self._file is None:
            self._array[self._rows : end] = block
        else:
            # The buffer is written as it lies in memory, so it must be in row order.
            _write(self._file, np.ascontiguousarray(block, self._dtype))
        self._rows = end

    def result(self) -> np.ndarray:
        """Return all rows: an array, or a memory map of the temporary file."""
        if self._file is not None:
            return map_bytes(self._file, self._dtype, (self._rows, self._width))
        self._array.resize((self._rows, self._width), refcheck=False)
        return self._array

    def discard(self) -> None:
        """Remove the temporary file, if there is one."""
        if self._file is not None:
            self._file.close()

    def _reserve(self, rows: int) -> None:
        """Make room for `rows`; memory is enlarged in place, so that it is never held twice."""
        if rows * self._width * self._dtype.itemsize > IN_MEMORY:
            self._file = scratch_file()
            _write(self._file, self._array[: self._rows])
            self._array = np.empty((0, self._width), self._dtype)
        elif self._rows:
            # No view of it has been given out yet, so that it may move.
            self._array.resize((rows, self._width), refcheck=False)
        else:
            self._array = np.empty((rows, self._width), self._dtype)


def keep(chunks: Iterable[pa.Array], where: str) -> Cells:
    """Return the cells of a column whose chunks can be read only once."""
    held: list[pa.Array] = []
    size = 0
    remaining = iter(chunks)
    for chunk in remaining:
        held.append(chunk)
        size += chunk.nbytes
        if size > IN_MEMORY:
            return _keep_in_file(held, remaining, where)
    return in_memory(held, where)


def _keep_in_file(held: list[pa.Array], remaining: Iterable[pa.Array], where: str) -> Cells:
    file = scratch_file()
    try:
        _write_chunks(file, held, remaining)
    except BaseException:
        file.close()
        raise
    # The arrays keep the mapping alive after both are closed.
    with pa.memory_map(file.name) as source, pa.ipc.open_stream(source) as reader:
        return in_memory([batch.column(0) for batch in reader], where, _Owner(file))


def _write_chunks(file: IO[bytes], held: list[pa.Array], remaining: Iterable[pa.Array]) -> None:
    schema = pa.schema([("cell", held[0].type)])
    with room(), pa.OSFile(file.name, "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
        while held:
            # Let go of each chunk once it is on disk: memory was short already.
            writer.write_batch(pa.record_batch([held.pop(0)], schema=schema))
        for chunk in remaining:
            writer.write_batch(pa.record_batch([chunk], schema=schema))


class _Owner:
    """Holds a temporary file for as long as cells need it."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
