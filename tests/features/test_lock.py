"""Locks: one process at a time, and none that is dead."""

import os
import signal
import subprocess
import sys
import threading

from kspr.features._lock import alone_in

HELD = """
import os, signal, sys
from pathlib import Path
from kspr.features._lock import alone_in
with alone_in(Path(sys.argv[1]), lambda: None):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_lock_of_a_killed_process_blocks_nobody(tmp_path):
    done = subprocess.run([sys.executable, "-c", HELD, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / ".lock").exists()
    waited = []
    with alone_in(tmp_path, lambda: waited.append(True)):
        pass
    assert waited == []
    assert list(tmp_path.iterdir()) == []


def test_the_second_waits_for_the_first_and_says_so_once(tmp_path):
    order, inside, waits = [], threading.Event(), threading.Event()

    def second():
        inside.wait()
        with alone_in(tmp_path, lambda: (order.append("waits"), waits.set())):
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with alone_in(tmp_path, lambda: order.append("never")):
        inside.set()
        assert waits.wait(10)
        order.append("first ends")
    thread.join(10)
    assert order == ["waits", "first ends", "second"]


def test_an_error_gives_the_folder_free(tmp_path):
    for _ in range(2):
        try:
            with alone_in(tmp_path / "new", lambda: os.abort()):
                raise KeyError
        except KeyError:
            pass
    assert not (tmp_path / "new").exists()
