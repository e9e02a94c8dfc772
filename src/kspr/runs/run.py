"""A run on disk: a saved selection, its rows, and the source that they came from."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kspr._files import read_sealed, staged, write_parquet, write_sealed
from kspr.errors import InputError
from kspr.features.loading import Loaded, stored_features
from kspr.runs.checks import Checks, apply_checks, read_checks, write_checks
from kspr.runs.rows import ROWS, Joined, JoinedItems, RunRows, join_rows, read_rows, row_tables
from kspr.runs.storage import load_selection, save_selection
from kspr.selectors import Selection
from kspr.sources.formats import absolute, address_of, exists
from kspr.sources.opening import open_source, open_table, probability_file
from kspr.sources.options import ReadOptions, with_encoder
from kspr.sources.pairs import PairRows, Pairs
from kspr.sources.readers.mixed_tables import Encoder
from kspr.sources.readers.table import Field, Table
from kspr.sources.records import Items, Records

_FORMAT = 1
ORIGIN = "run.json"
"""File that says where the rows of a run came from."""
CONSENSUS = "consensus.parquet"
"""Table of the rows' ids and labels, in a run whose source has several labels for each row."""
_FILES_BESIDE = ("labels", "probabilities", "votes")
"""Options of a run that may name files."""


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
    fingerprint: str | None = None
    """Fingerprint of the images or texts that these features belong to."""
    n_rows: int = 0
    """All rows of the source."""
    unreadable: int = 0
    """Items that could not be read, and are left out."""
    notes: tuple[str, ...] = ()
    """Sentences for the user: what had to be assumed to read the source."""
    encoder: Encoder | None = None
    """How gaps, dates and categories became numbers."""

    def read_options(self) -> ReadOptions:
        """Return the options with which the source was read."""
        # A run of a later version may have options that this one does not know.
        known = {field.name for field in fields(ReadOptions)}
        options: dict[str, Any] = {k: v for k, v in self.options.items() if k in known}
        if "labels" in options:
            options["labels"] = Path(options["labels"])
        return with_encoder(ReadOptions(**options), self.encoder)

    def command_line(self) -> str:
        """Return the command as it would be typed."""
        return shlex.join(self.command)


def describe(options: ReadOptions) -> dict[str, str]:
    """Return the options that were given, as text."""
    given = ((f, getattr(options, f.name)) for f in fields(ReadOptions))
    return {f.name: str(value) for f, value in given if value != f.default}


def origin_of(loaded: Loaded, options: ReadOptions, command: Sequence[str]) -> Origin:
    """Return where the rows of `loaded` came from, with absolute paths."""
    # Absolute, because later commands may be started in another folder.
    given, records = describe(options), loaded.records
    if options.labels is not None:
        given["labels"] = str(options.labels.resolve())
    beside = probability_file(options)
    if beside is not None:
        given["probabilities"] = str(beside.resolve())
    return Origin(
        source=absolute(records.source),
        reader=records.reader,
        options=given,
        command=tuple(command),
        embedding=None if loaded.folder is None else str(loaded.folder),
        fingerprint=loaded.fingerprint,
        n_rows=len(records),
        unreadable=loaded.unreadable,
        notes=records.notes,
        encoder=records.encoder,
    )


def origin_document(origin: Origin, named: bool) -> dict[str, Any]:
    """Return the content of `ORIGIN`: the origin, and whether the source names its rows."""
    return {"format": _FORMAT, "named": named, **asdict(origin)}


def read_origin(about: dict[str, Any]) -> Origin:
    """Return the origin in a document; raise `ValueError` or `TypeError` if it holds none."""
    # JSON has no tuples.
    lists = {name: tuple(about[name]) for name in ("command", "notes")}
    encoder = about.get("encoder")
    o = Origin(**{**about, **lists, "encoder": encoder and Encoder.read(encoder)})
    texts = [o.source, o.reader, *o.command, *o.notes]
    texts += [text for pair in dict(o.options).items() for text in pair]
    texts += [text for text in (o.embedding, o.fingerprint) if text is not None]
    sound = isinstance(o.options, dict) and {type(o.n_rows), type(o.unreadable)} == {int}
    if not sound or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{ORIGIN} has a value of another type")
    return o


def resolved(origin: Origin, folder: Path) -> Origin:
    """Return the origin with the place of the consensus, which moves with the run."""
    if origin.options.get("labels") != CONSENSUS:
        return origin
    return replace(origin, options={**origin.options, "labels": str(folder.resolve() / CONSENSUS)})


@dataclass(frozen=True, eq=False)
class Run:
    """A selection with its rows: entry i of the selection is row ``row[i]`` of the source.

    The source is opened when it is first needed, and once only. What is taken from it belongs to
    the run's rows: `joined` finds them again, wherever they are in the source now.
    """

    folder: Path
    selection: Selection
    fitted: Selection
    """The selection as it was fitted, whatever people have answered since."""
    checks: Checks | None
    """The draw and the answers that `selection` has; None without any."""
    rows: RunRows
    origin: Origin
    source_is_asked_for: bool = True
    """Whether the user has named the source, and not only the run on disk."""

    @property
    def row(self) -> np.ndarray:
        """Row numbers in the source as it was."""
        return self.rows.row

    @property
    def row_id(self) -> np.ndarray:
        """What identifies each row, as text."""
        return self.rows.row_id

    def at(self, q: float | None) -> "Run":
        """Return the run at another error rate, without a new fit; at its own if `q` is None."""
        if q is None:
            return self
        if self.checks is not None and self.checks.effective and q != self.checks.q:
            raise InputError(
                f"The checked rows of {self.folder} hold for q = {self.checks.q:g}, for which they "
                f"were drawn. Leave --q out, or draw anew: kspr verify {self.folder} --checks 100 "
                f"--q {q:g} --new-draw."
            )
        return replace(self, selection=self.selection.at(q))

    def records(self) -> Records:
        """Return all rows of the source; raise `InputError` if it cannot be read any more."""
        if isinstance(self._opened, InputError):
            raise self._opened
        return self._opened

    @cached_property
    def joined(self) -> Joined:
        """Where the run's rows are in the source as it is now.

        The one place that decides this: features, items, true labels and exported rows are all
        found by it. Raise `InputError` if the source cannot be read, if its rows cannot be told
        apart, or if none of them is what it was.
        """
        return self.join(self.records())

    def join(self, records: Records) -> Joined:
        """Return where the run's rows are in `records`, which the source gave."""
        joined = join_rows(self.rows, self.selection.label, records)
        if len(self.rows) and not len(joined.position):
            raise InputError(
                f"None of the rows of {self.folder} is in {self.origin.source} as it was. Name the "
                "data that the run was made from with --source, or select again."
            )
        return joined

    @property
    def n_labels(self) -> int:
        """How many labels each row of the source is judged for: several if it may have several."""
        # By name: the class would load scikit-learn, which takes longer than a page may.
        several = self.selection.manifest.method == "MultiLabelSelector"
        return len(self.selection.classes) // 2 if several else 1

    @property
    def label_names(self) -> np.ndarray:
        """The labels that each row is judged for, in the order of its pairs."""
        known = set(self.selection.classes.tolist())
        claims = self.selection.label[: self.n_labels].tolist()
        bare = [claim.removeprefix("not ") for claim in claims]
        # A label may begin with "not" itself.
        return np.array([b if b in known else c for b, c in zip(bare, claims, strict=True)])

    def table_rows(self) -> np.ndarray:
        """Return the row of the source's table that each row of the run is about; -1 for none."""
        records, places = self.records(), self.joined.places()
        return places // len(records.labels) if isinstance(records, Pairs) else places

    def notes(self) -> tuple[str, ...]:
        """Say in sentences what is different in the source now; empty if nothing is."""
        try:
            joined = self.joined
        except InputError as error:
            return (str(error),)
        unreadable = self.origin.unreadable * self.n_labels
        return joined.notes(self.rows, self.origin.source, unreadable)

    def features(self) -> Any:
        """Return the features of exactly this run's rows, in their order; None if they are gone."""
        if self.origin.embedding is not None:
            folder, fingerprint = Path(self.origin.embedding), str(self.origin.fingerprint)
            # Of pairs of a row and a label, the features are those of the row.
            k = self.n_labels
            stored = stored_features(folder, fingerprint, self.row[::k] // k)
            return stored if stored is None or k == 1 else PairRows(stored, k)
        records = self._records_if_there()
        if records is None or records.features is None or not self.joined.whole:
            return None
        # A whole source stays a memory map; any choice of its rows is a copy.
        whole = self.joined.is_all_of(len(records))
        return records.features if whole else records.features[self.joined.place]

    def groups(self) -> np.ndarray | None:
        """Return which of this run's rows belong together; None if the user named no groups.

        Raise `InputError` if the source does not say so of every row any more.
        """
        if self.origin.read_options().groups is None:
            return None
        groups = self.records().groups
        if groups is None or not self.joined.whole:
            raise InputError(
                f"The groups of some rows of {self.folder} are gone. {' '.join(self.notes())}"
            )
        return np.asarray(groups[self.joined.place])

    def groups_of_checks(self) -> np.ndarray:
        """Return which of this run's rows people see together, such as the boxes of an image."""
        groups = self.groups()
        if groups is None and self.n_labels > 1:
            groups = self.row // self.n_labels
        if groups is None:
            raise InputError(
                f"{self.folder} does not say which rows belong together. Name their column when "
                "you select: kspr select SOURCE --groups COLUMN."
            )
        return groups

    def items(self) -> Items | None:
        """Return the images or texts of exactly this run's rows; None without such, or if gone.

        Rows that are gone or have changed raise `UnreadableItemError` when they are asked for.
        """
        records = self._records_if_there()
        if records is None or records.items is None:
            return None
        # Where there are features, these were compared when the rows were joined.
        digest = self.rows.digest if records.features is None else None
        return JoinedItems(records.items, self.joined.places(), digest)

    def table(self) -> Table | None:
        """Return the source as a table with all of its columns; None if it is none.

        Raise `InputError` if the source cannot be read any more.
        """
        return open_table(self._place(), self.origin.read_options())

    def shown_fields(self) -> list[Field]:
        """Return the columns of the source that show a row to a person; empty without a table.

        Neither labels are among them, unless they are numbers, nor anything that tells them.
        """
        table, records = self.table(), self.records()
        telling = ("label", "truth", "probabilities")
        hidden = {n for role in telling for n in records.columns.get(role, ())}
        if records.numbers is not None:
            # A number is what people are to judge.
            hidden -= set(records.columns.get("label", ()))
        fields = {} if table is None else table.fields
        return [f for n, f in fields.items() if n not in hidden and len(f.path) == 1]

    @cached_property
    def _opened(self) -> Records | InputError:
        source = Path(self.origin.source)
        try:
            return open_source(self._place(), self.origin.read_options())
        except InputError as error:
            # Only what is returned is cached: raised, a source that is gone would be looked for
            # again at every call.
            is_there = address_of(source) is not None or exists(source)
            moved = "" if is_there else " If it has moved, name its place with --source."
            return InputError(f"{error}{moved}")

    def _place(self) -> Path:
        """Return where the source is; raise `InputError` if only the run itself says so.

        A file of this machine is opened all the same. A connection is not: a run from somebody else
        could name any address.
        """
        options = self.origin.options
        named = [self.origin.source, *(options.get(name, "") for name in _FILES_BESIDE)]
        addresses = [name for name in named if address_of(Path(name)) is not None]
        if addresses and not self.source_is_asked_for:
            raise InputError(
                f"{self.folder} was made from {addresses[0]}, and no address is opened because a "
                f"run names it. If you know it, pass --source {self.origin.source}."
            )
        return Path(self.origin.source)

    def _records_if_there(self) -> Records | None:
        """Return the source's rows; None if it is gone, or does not hold this run's rows."""
        try:
            return self.records() if self.joined else None
        except InputError:
            return None


def save_run(
    folder: Path,
    selection: Selection,
    rows: RunRows,
    origin: Origin,
    *,
    overwrite: bool,
    checks: Checks | None = None,
    tables: Mapping[str, pa.Table] | None = None,
) -> Run:
    """Write a run to `folder`, whole or not at all; `checks` are answers about its rows.

    `tables` are further files of it, by their names. With `CONSENSUS` among them, that is the file
    of labels to all who open the run.
    """
    check_folder(folder, overwrite=overwrite)
    sealed = [ROWS, "manifest.json"]
    with staged(folder) as staging:
        save_selection(selection, staging, overwrite=False)
        write_parquet(staging / ROWS, row_tables(rows))
        for name, table in (tables or {}).items():
            write_parquet(staging / name, table)
            sealed.append(name)
        if CONSENSUS in sealed:
            # The consensus is the file of labels, and rows without one are left out.
            options = {name: value for name, value in origin.options.items() if name != "label"}
            options |= {"labels": CONSENSUS, "missing": "drop"}
            origin = replace(origin, options=options)
        write_sealed(staging / ORIGIN, origin_document(origin, rows.named), *sealed)
        if checks is not None:
            write_checks(staging, checks)
    answered = apply_checks(selection, checks)
    return Run(folder, answered, selection, checks, rows, resolved(origin, folder))


def check_folder(folder: Path, *, overwrite: bool) -> None:
    """Refuse to write over a run by accident, and over anything else at all."""
    if not folder.exists():
        return
    # --overwrite is meant for runs; a folder of anything else is never removed.
    if not (folder / ORIGIN).is_file():
        raise InputError(f"{folder} exists and is not a run of kspr; choose another --out.")
    if not overwrite:
        raise InputError(
            f"{folder} already holds a run. Choose another --out, or pass --overwrite."
        )


def load_run(folder: Path, source: Path | None = None, *, answers: bool = True) -> Run:
    """Read what `save_run` wrote; `source` is where its data is now, if that has moved.

    Without `answers`, the selection is as it was fitted, whatever people have answered since.
    Raise `InputError` with one sentence if a file was changed, or if the files contradict each
    other.
    """
    if not (folder / ORIGIN).is_file():
        raise InputError(f"{folder} is not a run of kspr. Make one with `kspr select`.")
    about = read_sealed(folder / ORIGIN, ROWS, "manifest.json")
    if about.pop("format", None) != _FORMAT:
        raise InputError(f"{folder} is of another version of kspr. Select again.")
    fitted = load_selection(folder, answers=False)
    # Not loaded twice: the columns that answers leave as they are belong to both.
    checks = read_checks(folder, fitted) if answers else None
    selection = apply_checks(fitted, checks)
    try:
        rows = read_rows(folder / ROWS, about.pop("named"), len(selection))
        origin = read_origin(about)
    # The checksums hold, so that another program wrote these files: anything may be in them.
    except (KeyError, OSError, OverflowError, TypeError, ValueError, pa.ArrowException) as error:
        reason = " ".join(str(error).split())[:120]
        raise InputError(f"{folder} cannot be read as a run ({reason}). Select again.") from error
    if source is not None:
        origin = replace(origin, source=absolute(source))
    origin = resolved(origin, folder)
    return Run(folder, selection, fitted, checks, rows, origin, source is not None)
