"""The runner: the same answer in one sitting or many, by one process or two."""

import os
import signal
import subprocess
import sys
import time

import pytest

from kspr.errors import InputError
from kspr.experiments.reproduce import running
from kspr.experiments.reproduce.recipes import load_recipe
from kspr.experiments.reproduce.running import reproduce
from tests.experiments.reproduce.samples import QUICK, values


def test_two_jobs_give_the_answer_of_one(once, tmp_path):
    assert values(reproduce(QUICK, "smoke", tmp_path, jobs=2)) == values(once)


@pytest.mark.slow
def test_training_does_not_depend_on_the_number_of_jobs(tmp_path):
    recipe = load_recipe("table3")
    one, two = (reproduce(recipe, "smoke", tmp_path / str(n), jobs=n) for n in (1, 2))
    assert values(one) == values(two)


def test_a_killed_run_goes_on_with_what_is_missing(once, tmp_path):
    code = (
        "from pathlib import Path; from kspr.experiments.reproduce.recipes import load_recipe\n"
        "from kspr.experiments.reproduce.running import reproduce\n"
        f"reproduce(load_recipe('figure4'), 'smoke', Path({str(tmp_path)!r}))"
    )
    child = subprocess.Popen([sys.executable, "-c", code])
    until = time.monotonic() + 60
    while len(list(tmp_path.glob("trials/*.json"))) < 2 and time.monotonic() < until:
        time.sleep(0.002)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("trials/[!.]*.json")}
    assert kept
    assert values(reproduce(QUICK, "smoke", tmp_path)) == values(once)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


def test_a_second_run_computes_nothing(tmp_path, monkeypatch):
    first = reproduce(QUICK, "smoke", tmp_path)
    monkeypatch.setattr(running, "compute", lambda *_: pytest.fail("was computed again"))
    assert values(reproduce(QUICK, "smoke", tmp_path)) == values(first)


def test_a_stored_result_goes_on_without_the_files_of_its_trials(tmp_path, monkeypatch):
    first = reproduce(QUICK, "smoke", tmp_path)
    for path in tmp_path.glob("trials/*.json"):
        path.unlink()
    monkeypatch.setattr(running, "compute", lambda *_: pytest.fail("was computed again"))
    assert values(reproduce(QUICK, "smoke", tmp_path)) == values(first)


def test_a_trial_that_was_cut_off_is_run_again(once, tmp_path):
    reproduce(QUICK, "smoke", tmp_path)
    damaged = sorted(tmp_path.glob("trials/*.json"))[0]
    damaged.write_text(damaged.read_text()[:40])
    (tmp_path / "figure4-smoke.json").unlink()
    assert values(reproduce(QUICK, "smoke", tmp_path)) == values(once)


def test_more_seeds_add_trials_and_keep_the_others(once, tmp_path):
    more = reproduce(QUICK, "smoke", tmp_path, seeds=2)
    assert values(more)[: len(once.trials)] == values(once)
    estimate = more.estimate(None, "Sym. 40 %", "10 classes", "fsr")
    assert estimate.seeds == 2
    assert estimate.spread > 0


def test_an_interrupt_says_how_to_go_on(tmp_path, monkeypatch):
    done = []

    def compute(*_):
        if done:
            raise KeyboardInterrupt
        done.append(1)
        return {"fsr": 0.0}

    monkeypatch.setattr(running, "compute", compute)
    with pytest.raises(KeyboardInterrupt, match=r"1 of 6 trials are kept in .* The same command"):
        reproduce(QUICK, "smoke", tmp_path)


def test_data_that_is_not_here_is_named_in_one_sentence(tmp_path):
    with pytest.raises(InputError, match=r"table2 at scale mini cannot be run: webvision-mini is "):
        reproduce(load_recipe("table2"), "mini", tmp_path, folder=tmp_path)
    with pytest.raises(InputError, match="jobs must be 1 or more"):
        reproduce(QUICK, "smoke", tmp_path, jobs=0)


WORKER = """
import os, sys, time
from kspr.experiments.reproduce.running import _begin_worker
_begin_worker(os.getppid())
print("begun", flush=True)
time.sleep(600)
"""
PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"


def test_a_worker_ends_with_its_parent_even_if_that_is_killed():
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, WORKER], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout.readline() == "begun\n"
    parent.kill()
    # The worker holds the other end of the pipe: it is closed when both have ended.
    rest, _ = parent.communicate(timeout=60)
    assert rest == ""
