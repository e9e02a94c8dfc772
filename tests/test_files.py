"""Files appear whole or not at all."""

import os
import signal
import subprocess
import sys
import textwrap
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kspr._files import (
    alone_in,
    read_json,
    read_sealed,
    read_toml,
    staged,
    user_cache,
    write_json,
    write_parquet,
    write_sealed,
    write_text,
)
from kspr.errors import InputError


def test_a_failed_block_leaves_the_old_file_and_nothing_beside_it(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), staged(path) as staging:
        staging.write_text(f"half {1 / 0}")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_a_folder_takes_the_place_of_a_folder(tmp_path):
    path = tmp_path / "run"
    for text in ("old", "new"):
        with staged(path) as staging:
            staging.mkdir()
            (staging / "x").write_text(text)
    assert (path / "x").read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


KILLED = """
    import os, signal, sys
    from pathlib import Path
    from kspr._files import alone_in, staged
    real = os.rename
    os.rename = lambda *names: (real(*names), os.kill(os.getpid(), signal.SIGKILL))
    with alone_in(Path(sys.argv[1]), lambda: None), staged(Path(sys.argv[1])) as staging:
        staging.mkdir()
        (staging / "x").write_text("new")
"""


def test_a_killed_process_leaves_the_old_folder_which_comes_back(tmp_path):
    """Nor does its lock block anybody."""
    path = tmp_path / "run.v2"
    path.mkdir()
    (path / "x").write_text("old")
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(KILLED), path], check=False)
    assert done.returncode == -signal.SIGKILL
    assert not path.exists()
    waited = []
    with alone_in(path, lambda: waited.append(True)):
        with pytest.raises(ZeroDivisionError), staged(path):
            raise ZeroDivisionError
        assert (path / "x").read_text() == "old"
    assert waited == []
    left = [p.name for p in tmp_path.iterdir() if p != path]
    assert len(left) == 1
    assert left[0].startswith(".run.")


def test_the_second_waits_for_the_first_and_says_so_once(tmp_path):
    order, inside, waits = [], threading.Event(), threading.Event()
    folder = tmp_path / "new"

    def second():
        inside.wait()
        with alone_in(folder, lambda: (order.append("waits"), waits.set())):
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with alone_in(folder, lambda: order.append("never")):
        inside.set()
        assert waits.wait(10)
        order.append("first ends")
    thread.join(10)
    assert order == ["waits", "first ends", "second"]
    assert list(tmp_path.iterdir()) == []


def test_an_error_gives_the_folder_free(tmp_path):
    for _ in range(2):
        with pytest.raises(KeyError), alone_in(tmp_path / "new", lambda: os.abort()):
            raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_replaced_in_one_step(tmp_path, monkeypatch):
    """A process that is killed at any moment leaves the old file or the new one."""
    path = tmp_path / "a.json"
    write_json(path, {"n": 1})
    renames = []
    real = os.replace
    monkeypatch.setattr(os, "replace", lambda a, b: (renames.append(b), real(a, b)))
    monkeypatch.setattr(os, "rename", lambda *_: pytest.fail("the file was away for a moment"))
    write_json(path, {"n": 2})
    assert read_json(path) == {"n": 2}


def test_what_takes_its_place_is_on_disk_before(tmp_path, monkeypatch):
    synced = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (synced.append(handle), real(handle)))
    write_text(tmp_path / "a.txt", "text")
    assert len(synced) == 2  # the file, then the names in its folder


def test_json_that_is_missing_or_cut_off_is_none(tmp_path):
    assert read_json(tmp_path / "none.json") is None
    (tmp_path / "cut.json").write_text('{"a": [1,')
    assert read_json(tmp_path / "cut.json") is None


def test_names_of_any_script_come_back(tmp_path):
    write_json(tmp_path / "a.json", {"läbel": "猫"})
    assert read_json(tmp_path / "a.json") == {"läbel": "猫"}


def test_a_table_comes_back(tmp_path):
    table = pa.table({"a": [1, 2], "b": ["x", None]})
    write_parquet(tmp_path / "deep" / "a.parquet", table)
    assert pq.read_table(tmp_path / "deep" / "a.parquet").equals(table)


def test_the_users_cache_follows_the_system_and_defaults_to_the_home_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert user_cache() == tmp_path / "kspr"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_cache() == tmp_path / ".cache" / "kspr"


def test_a_sealed_document_comes_back_unless_it_or_its_files_changed(tmp_path):
    path, beside = tmp_path / "a.json", tmp_path / "b.bin"
    beside.write_bytes(b"data")
    content = {"x": [0.1, None, "é"], "n": float("inf")}
    write_sealed(path, content, "b.bin")
    assert read_sealed(path, "b.bin") == content
    beside.write_bytes(b"date")
    with pytest.raises(InputError, match=r"b\.bin is not as it was written"):
        read_sealed(path)
    beside.unlink()
    with pytest.raises(InputError, match=r"b\.bin is missing"):
        read_sealed(path)
    beside.write_bytes(b"data")
    path.write_text(path.read_text().replace("0.1", "0.2"))
    with pytest.raises(InputError, match=r"a\.json is not as it was written"):
        read_sealed(path)


def test_a_file_that_was_not_sealed_cannot_be_asked_for(tmp_path):
    (tmp_path / "b.bin").write_bytes(b"data")
    write_sealed(tmp_path / "a.json", {})
    with pytest.raises(InputError, match="is not as it was written"):
        read_sealed(tmp_path / "a.json", "b.bin")


@pytest.mark.parametrize("content", [b"x = [", b"\xff\xfe", None])
def test_a_settings_file_that_cannot_be_read_is_one_sentence(tmp_path, content):
    path = tmp_path / "s.toml"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(InputError, match=r"s\.toml cannot be read as a TOML file"):
        read_toml(path)


@pytest.mark.parametrize("how", ["pipe", "folder", "deep"])
def test_json_that_is_no_document_is_none(tmp_path, how):
    """A pipe would be waited for, and Python gives up on very deep documents."""
    path = tmp_path / "a.json"
    if how == "deep":
        path.write_text("[" * 100_000)
    else:
        os.mkfifo(path) if how == "pipe" else path.mkdir()
    assert read_json(path) is None


def test_a_pipe_is_no_settings_file(tmp_path):
    os.mkfifo(tmp_path / "s.toml")
    with pytest.raises(InputError, match=r"s\.toml cannot be read as a TOML file: it is a pipe"):
        read_toml(tmp_path / "s.toml")


def test_deep_settings_are_one_sentence(tmp_path):
    (tmp_path / "s.toml").write_text("x = " + "[" * 100_000)
    with pytest.raises(InputError, match=r"s\.toml cannot be read as a TOML file"):
        read_toml(tmp_path / "s.toml")
