"""The log of answers: it only grows, survives a kill, and says what answers come to."""

import json
import multiprocessing
import shutil
import signal
import sqlite3
import subprocess
import sys

import pytest

from kspr import InputError, KnockoffsSPR, Selection
from kspr.runs.checks import Checks, read_checks, write_checks
from kspr.runs.review_log import ReviewLog, _write_ahead, opinions, read_log


@pytest.fixture
def log(tmp_path):
    opened = ReviewLog(tmp_path, "data")
    yield opened
    opened.close()


def resolved(entries, drawn=(), filed=None):
    return {p: o.resolved for p, o in opinions(entries, drawn, filed or {}).items()}


def test_answers_come_back_in_their_order_with_who_and_when(log, tmp_path):
    log.append("anna", "check", {7: "cat"})
    log.append("ben", "fix", {1: "dog", 2: "-"})
    found = log.entries()
    assert [(e.position, e.answer, e.reviewer, e.queue) for e in found] == [
        (7, "cat", "anna", "check"),
        (1, "dog", "ben", "fix"),
        (2, "-", "ben", "fix"),
    ]
    assert all(e.time.endswith("+00:00") for e in found)
    assert list(read_log(tmp_path, "data")) == found


def test_people_who_agree_give_their_answer_and_others_nothing(log):
    log.append("anna", "check", {1: "cat", 2: "cat", 3: "?", 4: "-"})
    log.append("ben", "check", {1: "cat", 2: "dog", 3: "cat"})
    assert resolved(log.entries()) == {1: "cat", 2: "?", 3: "?", 4: "-"}
    found = opinions(log.entries(), (), {})
    assert [found[p].is_open for p in (1, 2, 3, 4)] == [False, True, True, False]


def test_a_settlement_wins_until_it_is_undone(log):
    log.append("anna", "check", {2: "cat"})
    log.append("ben", "check", {2: "dog"})
    log.append("anna", "settle", {2: "otter"})
    assert resolved(log.entries()) == {2: "otter"}
    assert log.undo("anna", "settle") == [2]
    assert resolved(log.entries()) == {2: "?"}


def test_undo_goes_back_batch_by_batch_for_one_person_in_one_queue(log):
    log.append("anna", "fix", {1: "cat"})
    log.append("anna", "fix", {1: "dog", 2: "dog"})
    log.append("anna", "check", {5: "cat"})
    log.append("ben", "fix", {3: "dog"})
    assert log.undo("anna", "fix") == [1, 2]
    assert resolved(log.entries()) == {1: "cat", 5: "cat", 3: "dog"}
    assert log.undo("anna", "fix") == [1]
    assert log.undo("anna", "fix") == []
    # Nothing was removed.
    assert len(log.entries()) == 7


def test_the_same_person_in_two_tabs_counts_once(log):
    log.append("anna", "check", {1: "cat"})
    log.append("anna", "check", {1: "dog"})
    assert resolved(log.entries()) == {1: "dog"}


def test_answers_of_picked_rows_never_count_in_a_draw(log):
    log.append("anna", "fix", {1: "cat", 2: "cat"})
    assert resolved(log.entries(), drawn=[1]) == {2: "cat"}


def test_answers_of_a_file_count_as_one_more_person(log):
    log.append("anna", "check", {1: "cat", 2: "cat"})
    assert resolved(log.entries(), filed={1: "cat", 2: "dog", 9: "dog"}) == {1: "cat", 2: "?"}


def test_no_program_can_change_or_remove_an_answer(log, tmp_path):
    log.append("anna", "check", {1: "cat"})
    other = sqlite3.connect(tmp_path / "review.sqlite")
    for statement in ("DELETE FROM entry", "UPDATE entry SET answer = 'dog'"):
        with pytest.raises(sqlite3.DatabaseError, match="answers are never"):
            other.execute(statement)
    other.close()


def test_another_process_is_seen(log, tmp_path):
    assert log.entries() == []
    other = ReviewLog(tmp_path, "data")
    other.append("ben", "check", {1: "cat"})
    assert resolved(log.entries()) == {1: "cat"}
    other.close()


def _append_many(folder, name, n):
    log = ReviewLog(folder, "data")
    for k in range(n):
        log.append(name, "check", {k: "cat"})


class Busy:
    """Stands for a file that other processes are opening: free after some attempts."""

    def __init__(self, attempts, code=sqlite3.SQLITE_BUSY):
        self.attempts, self.code, self.said = attempts, code, []

    def execute(self, statement):
        self.said.append(statement)
        if len(self.said) <= self.attempts:
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = self.code
            raise error


def test_a_file_that_others_are_opening_is_waited_for(monkeypatch):
    """SQLite itself does not always wait when it is to change how a file is written."""
    busy = Busy(attempts=3)
    _write_ahead(busy)
    assert busy.said == ["PRAGMA journal_mode = WAL"] * 4
    with pytest.raises(sqlite3.OperationalError):
        _write_ahead(Busy(attempts=1, code=sqlite3.SQLITE_READONLY))
    monkeypatch.setattr("kspr.runs.review_log._PATIENCE", 0.0)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        _write_ahead(Busy(attempts=10))


def test_processes_that_write_at_once_lose_nothing(tmp_path):
    people = ["anna", "ben", "cleo"]
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_append_many, args=(tmp_path, n, 20)) for n in people]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    found = read_log(tmp_path, "data")
    assert [e.number for e in found] == list(range(1, 61))
    assert {(e.reviewer, e.position) for e in found} == {(n, k) for n in people for k in range(20)}


KILLED = """
import os, signal, sys
from pathlib import Path
from kspr.runs.review_log import ReviewLog
log = ReviewLog(Path(sys.argv[1]), "data")
for k in range(int(sys.argv[2])):
    log.append("anna", "check", {k: "cat"})
    print(k, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def killed(folder, n):
    done = subprocess.run([sys.executable, "-c", KILLED, str(folder), str(n)], capture_output=True)
    assert done.returncode == -signal.SIGKILL
    assert len(done.stdout.split()) == n


def test_a_kill_loses_nothing_and_reading_makes_no_file(tmp_path):
    killed(tmp_path, 5)
    before = names(tmp_path)
    assert "review.sqlite-wal" in before
    assert len(read_log(tmp_path, "data")) == 5
    assert names(tmp_path) == before
    # A copy may come without the index of the pending writes.
    shutil.copytree(tmp_path, tmp_path / "copy")
    (tmp_path / "copy" / "review.sqlite-shm").unlink()
    assert len(read_log(tmp_path / "copy", "data")) == 5
    assert names(tmp_path / "copy") == ["review.sqlite", "review.sqlite-wal"]
    again = ReviewLog(tmp_path, "data")
    again.append("anna", "check", {5: "dog"})
    again.close()
    assert len(read_log(tmp_path, "data")) == 6
    assert names(tmp_path) == ["copy", "review.sqlite"]


def test_without_a_log_nothing_is_read_or_made(tmp_path):
    assert read_log(tmp_path, "data") == ()
    assert names(tmp_path) == []


def test_a_log_about_other_data_is_not_read_and_not_written_to(log, tmp_path):
    log.append("anna", "check", {1: "cat"})
    assert read_log(tmp_path, "other") == ()
    with pytest.raises(InputError, match="about other data"):
        ReviewLog(tmp_path, "other")


def foreign(path):
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE entry (number, batch)")
    database.commit()
    database.close()


def odd_value(path):
    log = ReviewLog(path.parent, "data")
    log.close()
    database = sqlite3.connect(path)
    database.execute("INSERT INTO entry VALUES (1, 1, 'x', 'cat', 'a', 'check', 't', NULL)")
    database.commit()
    database.close()


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b"no database at all" * 100),
        lambda path: path.write_bytes(b"SQLite format 3\0" + b"\xff" * 500),
        lambda path: path.mkdir(),
        lambda path: path.symlink_to("/etc/hostname"),
        foreign,
        odd_value,
    ],
    ids=["text", "cut", "folder", "link", "foreign", "odd value"],
)
def test_what_is_no_log_is_one_sentence_and_stays_as_it_is(tmp_path, damage):
    path = tmp_path / "review.sqlite"
    damage(path)
    content = path.read_bytes() if path.is_file() else None
    for use in (read_log, ReviewLog):
        if damage is odd_value and use is ReviewLog:
            continue
        with pytest.raises(InputError, match=r"review\.sqlite") as refusal:
            use(tmp_path, "data")
        assert "\n" not in str(refusal.value)
    assert content == (path.read_bytes() if path.is_file() else None)


@pytest.fixture(scope="module")
def fitted(blobs):
    return KnockoffsSPR(q=0.2).fit(blobs.X, blobs.y).selection_


def test_a_selection_is_loaded_with_the_answers_of_the_page(fitted, blobs, tmp_path):
    """The same as if they came from a file, and nothing is stored twice."""
    folder = fitted.save(tmp_path / "s")
    rows = fitted.draw_checks(40, q=0.2).tolist()
    about = (0.95, 0.2, 0, fitted.manifest.fingerprint, tuple(rows))
    write_checks(folder, Checks("pool", "mean", *about))
    log = ReviewLog(folder, fitted.manifest.fingerprint)
    for row in rows:
        log.append("anna", "check", {row: str(blobs.y_true[row])})
    log.close()
    expected = fitted.with_checks(rows, blobs.y_true[rows], q=0.2)
    found = Selection.load(folder)
    assert (found.clean_mask == expected.clean_mask).all()
    checks = read_checks(folder, fitted)
    assert len(checks.known) == 40
    write_checks(folder, checks)
    assert json.loads((folder / "checks.json").read_text())["answers"] == {}


def test_without_its_draw_a_log_still_decides_on_its_own_rows(fitted, blobs, tmp_path):
    folder = fitted.save(tmp_path / "s")
    wrong = int((blobs.y != blobs.y_true).argmax())
    log = ReviewLog(folder, fitted.manifest.fingerprint)
    log.append("anna", "check", {wrong: str(blobs.y_true[wrong])})
    log.close()
    found = Selection.load(folder)
    assert not found.clean_mask[wrong]
    assert not found.checked.calibrate


def test_answers_about_rows_that_are_not_there_are_refused(fitted, tmp_path):
    folder = fitted.save(tmp_path / "s")
    log = ReviewLog(folder, fitted.manifest.fingerprint)
    log.append("anna", "check", {10**6: "1"})
    log.close()
    with pytest.raises(InputError, match="rows that it does not have"):
        Selection.load(folder)
