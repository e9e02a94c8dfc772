"""Threads of this machine: order, few items ahead, one level of them, and a way out."""

import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from kspr import InputError
from kspr.selectors.parts import _WORTH_THREADS, threads


def idents(each) -> set[int]:
    return set(each(lambda _: threading.get_ident(), [1, 2, 3]))


@pytest.mark.parametrize("wrong", [0, True, 1.5, "two"])
def test_a_number_of_threads_that_is_none_is_refused(wrong):
    with pytest.raises(InputError, match="n_jobs must be a number of threads"), threads(10, wrong):
        pass


def test_threads_work_at_several_items_at_once():
    meeting = threading.Barrier(2, timeout=30)
    with threads(0, n_jobs=2) as each:
        assert sorted(each(lambda _: meeting.wait(), [1, 2])) == [0, 1]


def test_where_linear_algebra_has_one_thread_there_are_no_others():
    """A worker of another engine has one thread, and starts no others."""
    with threadpool_limits(limits=1, user_api="blas"), threads(np.inf) as each:
        assert idents(each) == {threading.get_ident()}


def test_few_numbers_are_worked_at_by_one_thread():
    with threadpool_limits(limits=2, user_api="blas"):
        with threads(_WORTH_THREADS - 1) as each:
            assert idents(each) == {threading.get_ident()}
        with threads(_WORTH_THREADS) as each:
            assert threading.get_ident() not in idents(each)


def test_few_items_are_ahead_of_the_caller():
    """Results that wait would otherwise fill the memory."""
    started: list[int] = []
    with threads(0, n_jobs=2) as each:
        results = iter(each(lambda item: started.append(item) or item, range(100)))
        for expected in range(90):
            assert next(results) == expected
            assert len(started) <= expected + 4
        assert list(results) == list(range(90, 100))


def test_linear_algebra_has_one_thread_inside():
    def limits(_: int) -> set[int]:
        return {i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas"}

    with threadpool_limits(limits=2, user_api="blas"), threads(np.inf) as each:
        assert list(each(limits, [1, 2])) == [{1}, {1}]


_WAITING = """
import os, signal, time
# Whoever starts the tests in the background has SIGINT ignored, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
from kspr.selectors.parts import threads

def wait(item):
    os.write(1, b"ready\\n")  # one call: two threads that print mix their lines
    time.sleep(120)

with threads(0, n_jobs=2) as each:
    list(each(wait, [1, 2]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no SIGINT to a single child")
def test_an_interrupt_does_not_wait_for_the_work():
    child = subprocess.Popen(
        [sys.executable, "-c", _WAITING], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        assert [child.stdout.readline() for _ in range(2)] == ["ready\n"] * 2
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=30)
    finally:
        child.kill()
    assert "KeyboardInterrupt" in errors
