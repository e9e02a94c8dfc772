"""``python -m kspr``, alone and as one of several processes."""

import os
import subprocess
import sys


def test_one_of_several_processes_ends_at_once_and_loses_nothing_that_is_due_at_its_end():
    """What it has printed is in the pipe, and functions of `atexit` were called."""
    script = (
        "import atexit, runpy, sys; sys.argv = ['kspr', 'datasets']; "
        "atexit.register(print, 'the end'); runpy.run_module('kspr', run_name='__main__'); "
        "print('after the end')"
    )
    environment = {**os.environ, "WORLD_SIZE": "2"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert "parquet" in done.stdout
    assert done.stdout.endswith("the end\n")
    assert "after" not in done.stdout
