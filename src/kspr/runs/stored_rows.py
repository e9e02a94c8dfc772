"""The rows of a run on disk: their numbers in the source, ids and digests."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kspr._arrow import ParquetRows, as_array
from kspr.core.coded import ROWS as ROWS_AT_ONCE
from kspr.core.coded import AllRows, InParts, row_ranges
from kspr.features import Loaded
from kspr.runs.joining import RunRows
from kspr.sources.readers.labels import texts_of
from kspr.sources.records import number_texts

__all__ = ["ROWS", "kept_rows", "read_rows", "row_tables", "rows_of"]

ROWS = "rows.parquet"
"""File of the rows: their numbers, ids and digests; a folder of such files for many parts."""


def rows_of(loaded: Loaded) -> RunRows:
    """Return the rows of a source that was opened, as a run keeps them."""
    return RunRows(loaded.row, loaded.row_id, loaded.digest, loaded.records.named)


def row_tables(rows: RunRows) -> Iterator[pa.Table]:
    """Yield the rows a few at a time: as Arrow has them, their ids take much memory."""
    for part in row_ranges(len(rows)):
        ids = pa.array(rows.row_id[part]).cast(pa.large_string())
        yield pa.table({"row": rows.row[part], "row_id": ids, "digest": rows.digest[part]})


def read_rows(path: Path, named: Any, n: int) -> RunRows:
    """Return the `n` rows that a file holds; raise `ValueError` if it holds others."""
    stored = ParquetRows(path)
    wrong = ValueError(f"{path.name} does not fit the selection of {n} rows")
    if stored.n_rows != n or not isinstance(named, bool):
        raise wrong
    row: Any = AllRows(n)
    start, last = 0, -1
    for batch in stored.batches(ROWS_AT_ONCE, ["row", "row_id", "digest"]):
        part = slice(start, start + len(batch))
        numbers, digests = (as_array(pa.chunked_array([batch[name]])) for name in ("row", "digest"))
        # Rows ascend: where they were in the source decides nothing any more, but people read it.
        ascend = numbers.dtype.kind == "i" and bool((np.diff(numbers, prepend=last) > 0).all())
        texts = batch["row_id"].type in (pa.string(), pa.large_string())
        complete = not any(column.null_count for column in batch.columns)
        if not (ascend and texts and complete and digests.dtype == np.uint64):
            raise wrong
        start, last = part.stop, int(numbers[-1]) if len(numbers) else last
        # Numbers that ascend are all numbers as long as none is larger than its place.
        if isinstance(row, AllRows) and last >= start:
            row = row.array()
        if not isinstance(row, AllRows):
            row[part] = numbers
    # What is used up stays with Arrow otherwise, and is as large as the columns.
    pa.default_memory_pool().release_unused()
    return kept_rows(stored, row, named)


def kept_rows(stored: ParquetRows, row: Any, named: bool) -> RunRows:
    """Return the rows of a file that is sound, to be read from it where they are asked for."""
    stored.hold()
    ids, digest = (_Kept(stored, name) for name in ("row_id", "digest"))
    # Ids that are only numbers are not read: as texts they take more than all else.
    return RunRows(row, ids if named else number_texts(np.asarray(row)), digest, named)


class _Kept(InParts):
    """A column of the rows of a run, read from its file where it is asked for.

    The file is held open: it is the one whose checksum was compared, whatever takes its place.
    """

    def __init__(self, stored: ParquetRows, name: str) -> None:
        self._stored = stored
        self._name = name

    def __len__(self) -> int:
        return int(self._stored.n_rows)

    def part(self, start: int, stop: int) -> np.ndarray:
        """Return neighbouring rows."""
        found = self._stored.slice(self._name, start, stop)
        return texts_of(found) if self._name == "row_id" else as_array(found)
