"""A run on disk: a saved selection, its rows, and the source that they came from."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kspr._files import staged, write_json, write_parquet
from kspr.errors import InputError
from kspr.features.loading import stored_features
from kspr.selectors import Selection
from kspr.sources.opening import open_source, open_table
from kspr.sources.options import ReadOptions
from kspr.sources.readers.table import Table
from kspr.sources.records import ChosenItems, Items, Records

__all__ = ["Origin", "Run", "load_run", "save_run"]

_ORIGIN = "run.json"
_ROWS = "rows.parquet"


@dataclass(frozen=True)
class Origin:
    """Where a run's rows came from, and the command that made it."""

    source: str
    reader: str
    options: dict[str, str]
    """Options that the user gave; what the reader found by itself is not among them."""
    command: tuple[str, ...]
    embedding: str | None = None
    """Folder of the features, for images and texts."""
    unreadable: int = 0
    """Items that could not be read, and are left out."""

    def read_options(self) -> ReadOptions:
        """Return the options with which the source was read."""
        # A run of a later version may have options that this one does not know.
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
    """A selection with its rows: entry i of the selection is row ``row[i]`` of the source.

    The source is opened when it is first needed, and once only.
    """

    folder: Path
    selection: Selection
    row: np.ndarray
    row_id: np.ndarray
    origin: Origin

    def records(self) -> Records:
        """Return all rows of the source; raise `InputError` if it cannot be read any more."""
        if isinstance(self._opened, InputError):
            raise self._opened
        return self._opened

    def features(self) -> Any:
        """Return the features of exactly this run's rows, in their order; None if they are gone."""
        if self.origin.embedding is not None:
            stored = stored_features(Path(self.origin.embedding))
            # Other rows may have been embedded into the same folder since.
            return stored if stored is not None and len(stored) == len(self.row) else None
        records = self._records_if_there()
        if records is None or records.features is None:
            return None
        # A whole source stays a memory map; any choice of its rows is a copy.
        whole = len(self.row) == len(records)
        return records.features if whole else records.features[self.place(len(records))]

    def items(self) -> Items | None:
        """Return the images or texts of exactly this run's rows; None without such, or if gone."""
        records = self._records_if_there()
        if records is None or records.items is None:
            return None
        return ChosenItems(records.items, self.place(len(records)))

    def table(self) -> Table | None:
        """Return the source as a table with all of its columns; None if it is none.

        Raise `InputError` if the source cannot be read any more.
        """
        return open_table(Path(self.origin.source), self.origin.read_options())

    def place(self, count: int) -> np.ndarray:
        """Return where the run's rows are in the source as it is now, with `count` rows.

        The one place that decides this: features, items, true labels and exported rows are all
        found by it. Raise `InputError` if the source has lost rows.
        """
        # -1 for a run without rows, which any source can serve.
        last = int(self.row.max(initial=-1))
        if count <= last:
            raise InputError(
                f"{self.origin.source} has {count} rows now, but {self.folder} was made from row "
                f"{last} too. Select again."
            )
        return self.row

    @cached_property
    def _opened(self) -> Records | InputError:
        try:
            return open_source(Path(self.origin.source), self.origin.read_options())
        except InputError as error:
            # Only what is returned is cached: raised, a source that is gone would be looked for
            # again at every call.
            return error

    def _records_if_there(self) -> Records | None:
        """Return the source's rows; None if it is gone, or has lost rows of this run."""
        try:
            self.place(len(self.records()))
        except InputError:
            return None
        return self.records()


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
        write_parquet(staging / _ROWS, pa.table({"row": row, "row_id": row_id.astype(str)}))
        write_json(staging / _ORIGIN, asdict(origin))
    return Run(folder, selection, row, row_id, origin)


def check_folder(folder: Path, *, overwrite: bool) -> None:
    """Refuse to write over a run by accident, and over anything else at all."""
    if not folder.exists():
        return
    # --overwrite is meant for runs; a folder of anything else is never removed.
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
        # JSON has no tuples.
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
    """Return where `records` came from, with absolute paths."""
    # Absolute, because later commands may be started in another folder.
    given = describe(options)
    if options.labels is not None:
        given["labels"] = str(options.labels.resolve())
    if options.probabilities is not None and Path(options.probabilities).is_file():
        given["probabilities"] = str(Path(options.probabilities).resolve())
    return Origin(str(records.source.resolve()), records.reader, given, tuple(command))
