"""Where the rows of a run came from, and the command that made it: the file `ORIGIN`."""

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from kspr.features import Loaded
from kspr.sources.opening import probability_file
from kspr.sources.options import ReadOptions
from kspr.sources.places import absolute

__all__ = [
    "CONSENSUS",
    "FORMAT",
    "ORIGIN",
    "Origin",
    "describe",
    "labelled_by_consensus",
    "origin_document",
    "origin_of",
    "read_origin",
    "resolved",
]

FORMAT = 1
ORIGIN = "run.json"
"""File that says where the rows of a run came from."""
CONSENSUS = "consensus.parquet"
"""Table of the rows' ids and labels, in a run whose source has several labels for each row."""


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


def describe(options: ReadOptions) -> dict[str, str]:
    """Return the options that were given, as text."""
    given = {f.name: getattr(options, f.name) for f in fields(options)}
    return {f.name: str(given[f.name]) for f in fields(options) if given[f.name] != f.default}


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
    )


def origin_document(origin: Origin, named: bool) -> dict[str, Any]:
    """Return what `ORIGIN` holds: where rows came from, and whether the source names them."""
    return {"format": FORMAT, "named": named, **asdict(origin)}


def read_origin(about: dict[str, Any]) -> Origin:
    """Return the origin in a document; raise `ValueError` or `TypeError` if it holds none."""
    # JSON has no tuples.
    lists = {name: tuple(about[name]) for name in ("command", "notes")}
    origin = Origin(**{**about, **lists})
    texts = [origin.source, origin.reader, *origin.command, *origin.notes]
    texts += [text for pair in dict(origin.options).items() for text in pair]
    texts += [text for text in (origin.embedding, origin.fingerprint) if text is not None]
    counts = {type(count) for count in (origin.n_rows, origin.unreadable)}
    if (
        not all(isinstance(text, str) for text in texts)
        or counts != {int}
        or not isinstance(origin.options, dict)
    ):
        raise ValueError(f"{ORIGIN} has a value of another type")
    return origin


def labelled_by_consensus(origin: Origin) -> Origin:
    """Return the origin with the consensus as its file of labels, and rows without one left out."""
    options = {name: value for name, value in origin.options.items() if name != "label"}
    return replace(origin, options={**options, "labels": CONSENSUS, "missing": "drop"})


def resolved(origin: Origin, folder: Path) -> Origin:
    """Return the origin with the place of the consensus, which moves with the run."""
    if origin.options.get("labels") != CONSENSUS:
        return origin
    return replace(origin, options={**origin.options, "labels": str(folder.resolve() / CONSENSUS)})
