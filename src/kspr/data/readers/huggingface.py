"""Hugging Face data sets as `save_to_disk` leaves them, read without their package."""

import json
from pathlib import Path
from typing import Any

from kspr.data.readers._assemble import records_of
from kspr.data.readers._guard import readable
from kspr.data.readers._ipc_table import open_ipc_table
from kspr.data.readers._reader import Reader
from kspr.data.readers._wording import listed
from kspr.data.records import ReadOptions, Records
from kspr.errors import InputError

__all__ = ["HUGGING_FACE"]

_STATE = "state.json"
_SPLITS = "dataset_dict.json"
_KIND = "a Hugging Face data set"


def _matches(path: Path, options: ReadOptions) -> bool:  # noqa: ARG001 - told by the layout alone
    return (path / _STATE).is_file() or (path / _SPLITS).is_file()


def _read(path: Path, options: ReadOptions) -> Records:
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
    _matches,
    _read,
)
