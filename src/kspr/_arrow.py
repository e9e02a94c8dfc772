"""Columns of Arrow tables as arrays.

Arrow's own `to_numpy` loads pandas wherever that is installed, which takes longer than everything
else that a command does with a small run. Numbers, truth values and texts are turned here without
it.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def read_parquet(path: Path, columns: list[str] | None = None) -> pa.Table:
    """Return the table of a parquet file, or of all such files in a folder, by their names."""
    return pa.concat_tables([_read(file, columns) for file in _files(path)])


def parquet_names(path: Path) -> list[str]:
    """Return the names of the columns that `read_parquet` reads."""
    return [name for file in _files(path)[:1] for name in pq.read_schema(file).names]


def _files(path: Path) -> list[Path]:
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    for file in files:
        # Opening a pipe would wait for somebody who writes to it.
        if file.exists() and not file.is_file():
            raise OSError(f"{file} is no regular file.")
    return files


def _read(file: Path, columns: list[str] | None) -> pa.Table:
    # `pyarrow.parquet.read_table` would load the whole of pyarrow.dataset, and pandas; a buffer
    # would hold all of the file that is yet to be read.
    with pq.ParquetFile(file, pre_buffer=False) as opened:
        return opened.read(columns)


def as_array(column: pa.ChunkedArray) -> np.ndarray:
    """Return a column as an array; texts become objects.

    Numbers of a column in one chunk are not copied, and cannot be written to.

    >>> as_array(pa.chunked_array([["a", "b"], ["a"]]))
    array(['a', 'b', 'a'], dtype=object)
    """
    kind = column.type
    if column.null_count or not len(column):
        return np.asarray(column.to_numpy())
    if pa.types.is_boolean(kind):
        return _numbers(column.cast(pa.uint8())).view(np.bool_)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _numbers(column)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        # Large: one chunk of all texts may have more than 2 GB.
        coded = column.cast(pa.large_string()).combine_chunks().dictionary_encode()
        names = np.array([*coded.dictionary.to_pylist(), None], dtype=object)
        return np.asarray(names[np.from_dlpack(coded.indices)])
    return np.asarray(column.to_numpy())


def _numbers(column: Any) -> np.ndarray:
    parts = [np.from_dlpack(chunk) for chunk in column.chunks if len(chunk)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
