"""The answers that people gave on the review page: a log inside of a run that only grows.

`review.sqlite` holds one row per answer: which row of the selection, who, what, in which queue and
when. Undoing appends a row as well. The outcome of several people's answers is decided here and
nowhere else, by `opinions`.
"""

from __future__ import annotations

import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from shutil import copyfile
from typing import Literal, get_args

from kspr.errors import InputError

NO_CLASS, CANNOT_TELL = "-", "?"
"""Answers for a row that belongs to none of the classes, and for one that nobody can settle."""
FILED = "a CSV file"
"""Who is named for answers that `kspr verify` read; no reviewer can have this name."""
Queue = Literal["check", "repeat", "plan", "fix", "settle"]
"""Where an answer was given; `repeat` is a row of `check` that the same person is asked again,
`plan` one of those that a finished data set needs."""
_FILE = "review.sqlite"
_PATIENCE = 30.0
"""Seconds to wait for another process that is writing."""
_SCHEMA = {
    "about": "CREATE TABLE about (fingerprint TEXT NOT NULL)",
    "entry": (
        "CREATE TABLE entry (number INTEGER PRIMARY KEY, batch INTEGER NOT NULL, "
        "position INTEGER, answer TEXT, reviewer TEXT NOT NULL, queue TEXT NOT NULL, "
        "time TEXT NOT NULL, undoes INTEGER)"
    ),
    # Nobody changes what was said, not even with another program.
    "no_delete": (
        "CREATE TRIGGER no_delete BEFORE DELETE ON entry "
        "BEGIN SELECT RAISE(ABORT, 'answers are never removed'); END"
    ),
    "no_update": (
        "CREATE TRIGGER no_update BEFORE UPDATE ON entry "
        "BEGIN SELECT RAISE(ABORT, 'answers are never changed'); END"
    ),
}
_INTEGER_LIMIT = 2**62


@dataclass(frozen=True)
class Entry:
    """One row of the log: an answer, or that a batch of answers is undone."""

    number: int
    batch: int
    """Number of the first entry of those that were given together."""
    position: int | None
    """Row of the selection; None where this undoes a batch."""
    answer: str | None
    """A class as text, `NO_CLASS` or `CANNOT_TELL`."""
    reviewer: str
    queue: Queue
    time: str
    undoes: int | None
    """The batch that is undone."""


@dataclass
class Opinion:
    """The answers of all people about a row, and their outcome."""

    position: int
    answers: dict[str, str] = field(default_factory=dict)
    """By reviewer."""
    repeated: dict[str, str] = field(default_factory=dict)
    """Second answers, by reviewer, of those who were asked twice."""
    settled: str | None = None

    @property
    def resolved(self) -> str:
        """The settlement, else the answer on which all agree, else `CANNOT_TELL`."""
        if self.settled is not None:
            return self.settled
        # A second answer can only make a row one to settle, which counts as wrong until then.
        said = {*self.answers.values(), *self.repeated.values()}
        return said.pop() if len(said) == 1 else CANNOT_TELL

    @property
    def is_open(self) -> bool:
        """Whether it is to be settled: people differ, or cannot tell."""
        return self.settled is None and self.resolved == CANNOT_TELL


def opinions(
    entries: Iterable[Entry], drawn: Iterable[int], filed: dict[int, str]
) -> dict[int, Opinion]:
    """Return the opinions about rows, by position.

    Rows that were `drawn` for checking take answers of the queues check and settle only: one that
    was given where rows are chosen must not end up in the draw. `filed` are answers from a CSV
    file; they count as those of one more reviewer, on rows that have others.
    """
    by_row: dict[int, Opinion] = {}
    drawn = set(drawn)
    for entry in standing_entries(entries):
        position, answer = entry.position, entry.answer
        if (
            position is None
            or answer is None
            or (entry.queue in ("fix", "plan") and position in drawn)
        ):
            continue
        opinion = by_row.setdefault(position, Opinion(position))
        if entry.queue == "settle":
            opinion.settled = answer
        elif entry.queue == "repeat":
            opinion.repeated[entry.reviewer] = answer
        else:
            # A later answer replaces an earlier one of the same person: two tabs count once.
            opinion.answers[entry.reviewer] = answer
    for position in by_row.keys() & filed.keys():
        by_row[position].answers[FILED] = filed[position]
    return by_row


def standing_entries(entries: Iterable[Entry]) -> list[Entry]:
    """Return the answers that were not undone, in their order."""
    entries = list(entries)
    undone = {entry.undoes for entry in entries if entry.undoes is not None}
    return [entry for entry in entries if entry.undoes is None and entry.batch not in undone]


def read_log(folder: Path, fingerprint: str) -> tuple[Entry, ...]:
    """Return the log in `folder`; empty without one, or if it is about other data.

    Nothing is written, and no file is made. Raise `InputError` if it is no log, or damaged.
    """
    path = folder / _FILE
    if not path.exists() and not path.is_symlink():
        return ()
    with _readable(path) as database:
        about = _about(database)
        return _entries(database) if about == fingerprint else ()


class ReviewLog:
    """The log of a run, to append to; several threads and processes may do so at once."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self._path = folder / _FILE
        if self._path.exists() or self._path.is_symlink():
            # Before anything is written: the file may be somebody else's.
            with _readable(self._path, locked=True) as database:
                if _about(database) not in (None, fingerprint):
                    raise InputError(
                        f"{self._path} holds answers about other data. Move it elsewhere."
                    )
        self._lock = threading.Lock()
        self._entries: list[Entry] = []
        with _explained(self._path):
            self._database = sqlite3.connect(
                self._path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
            )
            _write_ahead(self._database)
            # An answer is on disk before anything else happens.
            self._database.execute("PRAGMA synchronous = FULL")
        with self._writing():
            if self._database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                return
            for statement in _SCHEMA.values():
                self._database.execute(statement)
            self._database.execute("INSERT INTO about VALUES (?)", [fingerprint])

    def entries(self) -> list[Entry]:
        """Return all entries, also those that another process has appended meanwhile."""
        with self._lock, _explained(self._path):
            return self._refreshed()

    def append(self, reviewer: str, queue: Queue, answers: dict[int, str]) -> None:
        """Add the answers of a reviewer by position; they are on disk when this returns."""
        with self._writing():
            self._add(reviewer, queue, answers.items(), None)

    def undo(self, reviewer: str, *queues: Queue) -> list[int]:
        """Take back what a reviewer did last in some queues; return its rows, empty if nothing."""
        with self._writing():
            entries = [
                entry
                for entry in standing_entries(self._refreshed())
                if entry.reviewer == reviewer and entry.queue in queues
            ]
            if not entries:
                return []
            last = entries[-1]
            self._add(reviewer, last.queue, [(None, None)], last.batch)
            return [int(entry.position or 0) for entry in entries if entry.batch == last.batch]

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()

    def _refreshed(self) -> list[Entry]:
        last = self._entries[-1].number if self._entries else 0
        self._entries.extend(_entries(self._database, last))
        return list(self._entries)

    def _add(
        self,
        reviewer: str,
        queue: Queue,
        answers: Iterable[tuple[int | None, str | None]],
        undoes: int | None,
    ) -> None:
        (last,) = self._database.execute("SELECT coalesce(max(number), 0) FROM entry").fetchone()
        batch, now = int(last) + 1, datetime.now(UTC).isoformat(timespec="seconds")
        rows = (
            (batch + k, batch, *pair, reviewer, queue, now, undoes)
            for k, pair in enumerate(answers)
        )
        self._database.executemany("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._lock, _explained(self._path):
            # Immediate: another process waits here, and not after it has read what is out of date.
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")


@contextmanager
def _readable(path: Path, *, locked: bool = False) -> Iterator[sqlite3.Connection]:
    """Open a log for reading only; unless it is `locked` for that, no file is made beside it."""
    if path.is_symlink() or not path.is_file():
        raise InputError(f"{path} is no regular file. Move it elsewhere.")
    beside = [path.with_name(f"{path.name}-{end}") for end in ("wal", "shm")]
    wal, shm = (file.exists() for file in beside)
    opened = path
    with ExitStack() as stack:
        if wal and not shm and not locked:
            # Copied without its index, which SQLite would make anew: so it does that elsewhere.
            scratch = stack.enter_context(tempfile.TemporaryDirectory())
            for file in (path, beside[0]):
                copyfile(file, Path(scratch, file.name))
            opened = Path(scratch, path.name)
        # Without a file of pending writes nobody writes, and no lock is needed.
        how = "mode=ro" if wal or locked else "mode=ro&immutable=1"
        with _explained(path):
            address = f"{opened.resolve().as_uri()}?{how}"
            database = sqlite3.connect(address, uri=True, timeout=_PATIENCE)
            stack.callback(database.close)
            yield database


def _about(database: sqlite3.Connection) -> str | None:
    """Check that a file is a log, and return the fingerprint of its data; None if it is empty."""
    # Views and functions that a stranger put into the file are never run.
    database.execute("PRAGMA trusted_schema = OFF")
    tables = dict(database.execute("SELECT name, sql FROM sqlite_master").fetchall())
    # Another process may just be making it.
    if not tables:
        return None
    about = (
        database.execute("SELECT fingerprint FROM about").fetchall() if tables == _SCHEMA else []
    )
    if len(about) != 1 or not isinstance(about[0][0], str):
        raise sqlite3.DatabaseError("it has other tables")
    return str(about[0][0])


def _entries(database: sqlite3.Connection, after: int = 0) -> tuple[Entry, ...]:
    columns = "number, batch, position, answer, reviewer, queue, time, undoes"
    rows = database.execute(
        f"SELECT {columns} FROM entry WHERE number > ? ORDER BY number",  # noqa: S608 - constants
        [after],
    )
    return tuple(_entry(row) for row in rows)


def _entry(row: tuple[object, ...]) -> Entry:
    entry = Entry(*row)  # type: ignore[arg-type]
    numbers = (entry.number, entry.batch, entry.position, entry.undoes)
    texts = (entry.answer, entry.reviewer, entry.queue, entry.time)
    # SQLite holds any type in any column.
    sound = (
        all(n is None or (type(n) is int and 0 <= n < _INTEGER_LIMIT) for n in numbers)
        and all(text is None or isinstance(text, str) for text in texts)
        and entry.queue in get_args(Queue)
        and (entry.undoes is None) == (entry.position is not None and entry.answer is not None)
    )
    if not sound:
        raise sqlite3.DatabaseError(f"entry {str(entry.number)[:20]} has values of another type")
    return entry


def _write_ahead(database: sqlite3.Connection) -> None:
    """Keep a log of what is written, so that readers and writers do not wait for each other."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            database.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            # For this statement SQLite does not always wait by itself: two processes that open a
            # new file at once would wait for each other.
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    # Text that is not UTF-8 is an OperationalError; numbers beyond 64 bits an OverflowError.
    except (sqlite3.Error, OverflowError, UnicodeError) as error:
        reason = " ".join(str(error).split())[:80]
        raise InputError(
            f"{path} cannot be used as a log of answers ({reason}). Move it elsewhere, or copy it "
            "again."
        ) from error
