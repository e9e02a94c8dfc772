"""Halves side by side: the same answer, the same ticks, and a way out."""

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from kspr.core.procedure import FirstStep, Judgement, Procedure, judge
from kspr.selectors.engines import local
from kspr.selectors.engines.local import one_level_of_threads, side_by_side

STEPS = 5


def judged(
    each: Callable[..., Iterable[np.ndarray]], first_step: FirstStep = "spr"
) -> tuple[Judgement, int]:
    """Judge one piece of 2 x 3,000 rows; return also how often it ticked."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 4, (1, 2, 3_000))
    X = (np.eye(4, 40)[label] + 0.5 * rng.standard_normal((1, 2, 3_000, 40))).astype(np.float32)
    ticks: list[int] = []
    answer = judge(
        X,
        label,
        np.ones(label.shape, dtype=bool),
        4,
        Procedure(intercept=True, first_step=first_step, steps=STEPS),
        on_step=lambda: ticks.append(1),
        each=each,
    )
    return answer, len(ticks)


@pytest.mark.parametrize("first_step", ["spr", "least_squares"])
def test_halves_side_by_side_give_the_sequential_answer(first_step: FirstStep) -> None:
    """Bit for bit, with as many BLAS threads for each half as the sequential run has."""
    # The basis of both halves is no part of this: one thread for it in either run.
    with threadpool_limits(limits=1, user_api="blas"):
        one_by_one, ticks = judged(map, first_step)
        together, ticks_together = judged(_with_two_threads, first_step)
    assert ticks == ticks_together == (STEPS - 1 if first_step == "spr" else 0)
    for name in ("Z", "Z_tilde", "W", "knockoff", "suggested"):
        np.testing.assert_array_equal(getattr(together, name), getattr(one_by_one, name))


def _with_two_threads(function: Callable[..., object], items: list[slice]) -> list[object]:
    with threadpool_limits(limits=2, user_api="blas"), one_level_of_threads():
        return list(side_by_side(function, items))


def test_threads_are_shared_out_where_there_are_several() -> None:
    meeting = threading.Barrier(2, timeout=30)
    assert sorted(_with_two_threads(lambda _: meeting.wait(), [slice(0), slice(1)])) == [0, 1]


def test_one_thread_stays_one() -> None:
    """An engine's worker has one thread for its linear algebra, and starts no others."""
    with threadpool_limits(limits=1, user_api="blas"), one_level_of_threads():
        found = list(side_by_side(lambda _: threading.get_ident(), [1, 2]))
    assert found == [threading.get_ident()] * 2


def test_few_numbers_are_worked_at_by_one_thread() -> None:
    with (
        threadpool_limits(limits=2, user_api="blas"),
        one_level_of_threads(local._WORTH_THREADS - 1),
    ):
        found = list(side_by_side(lambda _: threading.get_ident(), [1, 2]))
    assert found == [threading.get_ident()] * 2


def test_few_items_are_ahead_of_the_caller() -> None:
    """Results that wait would otherwise fill the memory."""
    started: list[int] = []
    with threadpool_limits(limits=2, user_api="blas"), one_level_of_threads():
        results = side_by_side(lambda item: started.append(item) or item, range(100))
        for expected in range(90):
            assert next(results) == expected
            assert len(started) <= expected + 4
        assert list(results) == list(range(90, 100))


def test_there_are_never_two_levels_of_threads() -> None:
    def nested(item: int) -> tuple[set[int], list[int]]:
        blas = {i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas"}
        return blas, list(side_by_side(lambda _: threading.get_ident(), [item, item]))

    for blas, inside in _with_two_threads(nested, [1, 2]):
        assert blas == {1}
        assert len(set(inside)) == 1


_WAITING = """
import os, signal, time
# Whoever starts the tests in the background has SIGINT ignored, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
from threadpoolctl import threadpool_limits
from kspr.selectors.engines.local import one_level_of_threads, side_by_side

def wait(item):
    os.write(1, b"ready\\n")  # one call: two threads that print mix their lines
    time.sleep(120)

with threadpool_limits(limits=2, user_api="blas"), one_level_of_threads():
    list(side_by_side(wait, [1, 2]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no SIGINT to a single child")
def test_an_interrupt_does_not_wait_for_the_halves() -> None:
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
