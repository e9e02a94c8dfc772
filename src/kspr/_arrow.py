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

__all__ = ["as_array", "read_parquet"]


def read_parquet(path: Path, columns: list[str] | None = None) -> pa.Table:
    """Return a parquet file, or some columns of it."""
    # `pyarrow.parquet.read_table` loads the whole of pyarrow.dataset for it.
    with pq.ParquetFile(path) as file:
        return file.read(columns)


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
