"""A command that is killed at any moment, and started again, ends as if nothing had happened.

`make test-kill` kills a hundred times; five kills right after a rename are part of every test run.
"""

import signal
from pathlib import Path

import numpy as np
import pytest

from tests.hostile.kills import COMMANDS, again, aside, inside, prepare, run, undisturbed

KILLS = 100


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """One folder for all attempts: runs hold the path of their source."""
    return tmp_path_factory.mktemp("killed")


@pytest.fixture(scope="module")
def expected(place):
    """Return the undisturbed result of a command, computed once."""
    found = {}

    def compute(name):
        if name not in found:
            with inside(place):
                found[name] = undisturbed(COMMANDS[name])
        return found[name]

    return compute


def check_killed(name, place, expected, **when):
    """Kill a command, look at what it left, and run it again."""
    command, whole = COMMANDS[name], expected(name)
    with inside(place):
        prepare(command)
        code = run(command.arguments, **when)
        # A random moment may come after the end.
        assert code in (0, -signal.SIGKILL)
        assert command.whole()
        following = None if code == 0 else again(command)
        if following is not None:
            assert run(following) == 0, Path("log.txt").read_text()
        assert command.result() == whole.result
        assert aside() == []
    return code


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_killed_right_after_a_rename_can_be_run_again(name, place, expected):
    last = expected(name).renames
    assert last >= 1
    assert check_killed(name, place, expected, renames=(last + 1) // 2) == -signal.SIGKILL


def kills():
    """Return commands in turn, half of them killed after a rename, half at a random moment."""
    names = list(COMMANDS)
    return [(names[k % len(names)], k // len(names)) for k in range(KILLS)]


@pytest.mark.kill
@pytest.mark.parametrize(("name", "number"), kills())
def test_a_command_killed_at_any_moment_can_be_run_again(name, number, place, expected):
    known, rng = expected(name), np.random.default_rng([number, len(name)])
    if number % 2:
        check_killed(name, place, expected, seconds=float(rng.uniform(0, known.seconds)))
    else:
        # Every rename in turn, and again from the first.
        check_killed(name, place, expected, renames=1 + (number // 2) % known.renames)
