"""CSV and TSV tables of features or texts."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import narwhals as nw
import pyarrow as pa

from kspr.errors import InputError
from kspr.sources.readers._arrow_tables import open_ipc_table, open_parquet_table
from kspr.sources.readers._assemble import records_of, roles_of
from kspr.sources.readers._csv_table import has_table_suffix, open_csv_table
from kspr.sources.readers._table import ArrowTable
from kspr.sources.readers.guard import listed, readable
from kspr.sources.records import SPLITS, Reader, ReadOptions, Records

__all__ = ["ARROW", "DELIMITED", "HUGGING_FACE", "MANIFEST", "PARQUET", "read_object"]


def _is_delimited(path: Path, options: ReadOptions) -> bool:  # noqa: ARG001 - told by the name alone
    return has_table_suffix(path)


def _read_delimited(path: Path, options: ReadOptions) -> Records:
    return records_of(open_csv_table(path), path, DELIMITED.name, options)


DELIMITED = Reader(
    "csv",
    "CSV or TSV table (.csv, .tsv, also .gz): feature columns by pattern or texts, label by name",
    _is_delimited,
    _read_delimited,
)


def _is_manifest(path: Path, options: ReadOptions) -> bool:
    if not has_table_suffix(path):
        return False
    try:
        return roles_of(open_csv_table(path), options, str(path)).image is not None
    except InputError:
        # The reader of tables will say what is wrong.
        return False


def _read_manifest(path: Path, options: ReadOptions) -> Records:
    return records_of(open_csv_table(path), path, MANIFEST.name, options)


MANIFEST = Reader(
    "manifest",
    "list of images (.csv or .tsv with path and label): paths are relative to the list's folder",
    _is_manifest,
    _read_manifest,
)

_SUFFIXES = (".parquet", ".pq")


def _files(folder: Path) -> list[Path]:
    inside = folder.iterdir() if folder.is_dir() else ()
    return sorted(p for p in inside if p.suffix.lower() in _SUFFIXES and p.name[0] not in "._")


def _is_parquet(path: Path, options: ReadOptions) -> bool:  # noqa: ARG001 - told by the name alone
    return path.suffix.lower() in _SUFFIXES or bool(_files(path))


def _read_parquet(path: Path, options: ReadOptions) -> Records:
    files = _files(path) or [path]
    _check_one_split(path, files)
    return records_of(open_parquet_table(*files), path, PARQUET.name, options)


def _check_one_split(folder: Path, files: list[Path]) -> None:
    names = sorted({re.split(r"[-_.]", file.name)[0].lower() for file in files})
    if len(names) > 1 and set(names) <= SPLITS:
        raise InputError(
            f"{folder} holds several splits: {listed(names)}. Name one file, or put each split "
            "into a folder of its own."
        )


PARQUET = Reader(
    "parquet",
    "parquet (.parquet, or a folder of them): feature columns, one list column, images or texts",
    _is_parquet,
    _read_parquet,
)


def _is_arrow(path: Path, options: ReadOptions) -> bool:  # noqa: ARG001 - told by the name alone
    return path.suffix.lower() in {".arrow", ".feather", ".ipc"}


def _read_arrow(path: Path, options: ReadOptions) -> Records:
    return records_of(open_ipc_table(path), path, ARROW.name, options)


ARROW = Reader(
    "arrow",
    "Arrow or Feather table (.arrow, .feather): as parquet, memory-mapped where not compressed",
    _is_arrow,
    _read_arrow,
)

_STATE = "state.json"
_SPLITS = "dataset_dict.json"
_KIND = "a Hugging Face data set"


def _is_hugging_face_folder(path: Path, options: ReadOptions) -> bool:  # noqa: ARG001 - told by the layout alone
    return (path / _STATE).is_file() or (path / _SPLITS).is_file()


def _read_hugging_face(path: Path, options: ReadOptions) -> Records:
    if (path / _SPLITS).is_file():
        splits = _json(path / _SPLITS).get("splits", [])
        first = path / str(next(iter(splits), "train"))
        raise InputError(f"{path} holds the splits {listed(splits)}. Name one, such as {first}.")
    with readable(path / _STATE, _KIND):
        names = [entry["filename"] for entry in _json(path / _STATE)["_data_files"]]
    if not names:
        raise InputError(f"{path} has no rows.")
    # A name is a file in this folder; whatever else it says is not followed.
    table = open_ipc_table(*(path / Path(name).name for name in names))
    return records_of(table, path, HUGGING_FACE.name, options)


def _json(path: Path) -> dict[str, Any]:
    with readable(path, "JSON"):
        content = json.loads(path.read_text(encoding="utf-8"))
    return content if isinstance(content, dict) else {}


HUGGING_FACE = Reader(
    "hugging face",
    "Hugging Face data set (folder made by save_to_disk): memory-mapped; class names are used",
    _is_hugging_face_folder,
    _read_hugging_face,
)

_READER = "object"


def read_object(source: Any, options: ReadOptions) -> Records:
    """Return the rows of an Arrow table, a Hugging Face data set, or any data frame.

    ``Records.source`` is then the name of its type, in angle brackets.
    """
    name = f"<{type(source).__name__}>"
    return records_of(ArrowTable(_as_arrow(source, name), name), Path(name), _READER, options)


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
