"""A run on disk: a saved selection, the rows that it speaks of, and where they came from."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kspr._files import staged
from kspr.errors import InputError
from kspr.selectors import Selection
from kspr.sources.opening import open_source
from kspr.sources.records import ReadOptions, Records

__all__ = ["Origin", "Run", "load_run", "save_run"]

_ORIGIN = "run.json"
_ROWS = "rows.parquet"


@dataclass(frozen=True)
class Origin:
    """Where a run's rows came from, and the command that made it."""

    source: str
    reader: str
    options: dict[str, str]
    """What the user said about the source; whatever was found by itself is not here."""
    command: tuple[str, ...]
    embedding: str | None = None
    """Folder of the features, for images and texts."""
    unreadable: int = 0
    """Items that could not be read, and are left out."""

    def read_options(self) -> ReadOptions:
        """Return the options with which the source was read."""
        known = {field.name for field in fields(ReadOptions)}
        options: dict[str, Any] = {k: v for k, v in self.options.items() if k in known}
        if "labels" in options:
            options["labels"] = Path(options["labels"])
        return ReadOptions(**options)

    def command_line(self) -> str:
        """Return the command as it would be typed."""
        return shlex.join(self.command)


@dataclass(frozen=True, eq=False)
class Run:
    """A selection with its rows: entry i of the selection is row ``row[i]`` of the source."""

    folder: Path
    selection: Selection
    row: np.ndarray
    row_id: np.ndarray
    origin: Origin

    def records(self) -> Records:
        """Open the source again, for its items and features."""
        return open_source(Path(self.origin.source), self.origin.read_options())


def describe(options: ReadOptions) -> dict[str, str]:
    """Return the options that were given, as text."""
    return {name: str(value) for name, value in asdict(options).items() if value is not None}


def save_run(
    folder: Path,
    selection: Selection,
    row: np.ndarray,
    row_id: np.ndarray,
    origin: Origin,
    *,
    overwrite: bool,
) -> Run:
    """Write a run to `folder`, whole or not at all."""
    check_folder(folder, overwrite=overwrite)
    with staged(folder) as staging:
        selection.save(staging)
        pq.write_table(pa.table({"row": row, "row_id": row_id.astype(str)}), staging / _ROWS)
        text = json.dumps(asdict(origin), indent=2, ensure_ascii=False)
        (staging / _ORIGIN).write_text(text + "\n", encoding="utf-8")
    return Run(folder, selection, row, row_id, origin)


def check_folder(folder: Path, *, overwrite: bool) -> None:
    """Refuse to write over a run by accident, and over anything else at all."""
    if not folder.exists():
        return
    if not (folder / _ORIGIN).is_file():
        raise InputError(f"{folder} exists and is not a run of kspr; choose another --out.")
    if not overwrite:
        raise InputError(
            f"{folder} already holds a run. Choose another --out, or pass --overwrite."
        )


def load_run(folder: Path) -> Run:
    """Read what `save_run` wrote."""
    if not (folder / _ORIGIN).is_file():
        raise InputError(f"{folder} is not a run of kspr. Make one with `kspr select`.")
    selection = Selection.load(folder)
    try:
        about = json.loads((folder / _ORIGIN).read_text(encoding="utf-8"))
        rows = pq.read_table(folder / _ROWS)
        origin = Origin(**{**about, "command": tuple(about["command"])})
    except (json.JSONDecodeError, pa.ArrowInvalid, OSError, KeyError, TypeError) as error:
        raise InputError(f"{folder} cannot be read as a run: {error}") from error
    return Run(
        folder,
        selection,
        np.asarray(rows["row"].to_numpy()),
        np.asarray(rows["row_id"].to_numpy()).astype(str),
        origin,
    )


def origin_of(records: Records, options: ReadOptions, command: Sequence[str]) -> Origin:
    """Return where `records` came from, with paths that hold wherever it is read."""
    given = describe(options)
    if options.labels is not None:
        given["labels"] = str(options.labels.resolve())
    return Origin(str(records.source.resolve()), records.reader, given, tuple(command))
