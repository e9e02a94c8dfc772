"""The rows of a table: in a file, or in memory as a data frame or a Hugging Face data set."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import narwhals as nw
import pyarrow as pa

from kspr.errors import InputError
from kspr.sources.formats import format_of
from kspr.sources.options import ReadOptions
from kspr.sources.readers._arrow_tables import ArrowTable
from kspr.sources.readers._assemble import records_of
from kspr.sources.readers.guard import listed
from kspr.sources.readers.table_files import open_table_file
from kspr.sources.records import Records

__all__ = ["read_object", "read_table"]


def read_table(path: Path, options: ReadOptions) -> Records:
    """Return the rows of a table in a file or folder."""
    table, known = open_table_file(path), format_of(path)
    if table is None or known is None:
        raise InputError(f"{path} is not a table.")
    return records_of(table, path, known.name, options)


def read_object(source: Any, options: ReadOptions) -> Records:
    """Return the rows of an Arrow table, a Hugging Face data set, or any data frame.

    ``Records.source`` is then the name of its type, in angle brackets.
    """
    name = f"<{type(source).__name__}>"
    return records_of(ArrowTable(_as_arrow(source, name), name), Path(name), "object", options)


def _as_arrow(source: Any, name: str) -> pa.Table:
    if isinstance(source, pa.Table):
        return source
    if isinstance(source, pa.RecordBatch):
        return pa.Table.from_batches([source])
    if isinstance(source, Mapping) and any(_is_hugging_face(part) for part in source.values()):
        raise InputError(f"{name} holds the splits {listed(map(str, source))}. Pass one of them.")
    if _is_hugging_face(source):
        return _hugging_face(source)
    return _data_frame(source, name)


def _is_hugging_face(source: Any) -> bool:
    return hasattr(source, "with_format") and hasattr(getattr(source, "data", None), "table")


def _hugging_face(source: Any) -> pa.Table:
    """Return a data set's table; it stays mapped unless rows were chosen or moved."""
    chosen = getattr(source, "_indices", None) is not None
    table = source.with_format("arrow")[:] if chosen else source.data.table
    metadata = {**(table.schema.metadata or {}), **_class_names(source)}
    return table.replace_schema_metadata(metadata)


def _class_names(source: Any) -> dict[bytes, bytes]:
    features = getattr(source, "features", None) or {}
    names = {
        column: {"names": list(feature.names), "_type": "ClassLabel"}
        for column, feature in features.items()
        if getattr(feature, "names", None)
    }
    return {b"huggingface": json.dumps({"info": {"features": names}}).encode()}


def _data_frame(source: Any, name: str) -> pa.Table:
    try:
        frame = nw.from_native(source)
    except TypeError as error:
        raise InputError(
            f"{name} cannot be read. Pass a path, an Arrow table, a data frame or a Hugging Face "
            "data set."
        ) from error
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    try:
        return frame.to_arrow()
    except (pa.ArrowException, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())[:120]
        raise InputError(f"{name} has a column that mixes types ({reason}).") from error
