"""A clock for a machine that other people use.

Two threads of linear algebra that wait for each other lose far more to a neighbour than the
neighbour's share of the machine: a fit of 0.8 s takes 4 to 25 s beside a test suite on two
cores. So every timing waits for a calm moment, and notes what others did meanwhile.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Clock", "Timing", "calm", "fastest", "median"]

_STAT = Path("/proc/stat")
_CALM = 0.3
"""Cores that others may use in a timing that counts as undisturbed."""
_ROUNDING = 0.02
"""The system counts in steps of 0.01 s: as much may be ours."""
_GLANCE = 0.25
"""Seconds over which the machine is watched before a timing."""


@dataclass(frozen=True)
class Timing:
    """How long something took, its processor time, and how many cores others used meanwhile."""

    seconds: float
    cpu: float
    others: float


class Clock:
    """Time jobs, waiting for calm moments as long as the patience for all of them lasts."""

    def __init__(self, patience: float) -> None:
        self.patience = patience

    def time(self, job: Callable[[], object]) -> Timing:
        """Run the job once."""
        self._wait()
        before, own, start = _foreign_seconds(), _own_seconds(), time.perf_counter()
        job()
        seconds, cpu = time.perf_counter() - start, _own_seconds() - own
        others = max(0.0, _foreign_seconds() - before - _ROUNDING) / seconds
        return Timing(seconds, round(cpu, 3), round(others, 3))

    def alternate(self, repeats: int, **jobs: Callable[[], object]) -> dict[str, list[Timing]]:
        """Time the jobs in turn, so that a busy spell of the machine meets all of them."""
        timings: dict[str, list[Timing]] = {name: [] for name in jobs}
        for _ in range(repeats):
            for name, job in jobs.items():
                timings[name].append(self.time(job))
        return timings

    def _wait(self) -> None:
        while self.patience > 0 and _busy_now() > _CALM:
            time.sleep(1)
            self.patience -= 1 + _GLANCE


def calm(timings: list[Timing]) -> list[Timing]:
    """Return the undisturbed timings, or the least disturbed third where these are too few."""
    found = [timing for timing in timings if timing.others <= _CALM]
    ordered = sorted(timings, key=lambda timing: timing.others)
    least = ordered[: max(1, len(timings) // 3)]
    return found if len(found) > len(least) else least


def fastest(timings: list[Timing]) -> float:
    """Return the best time among the calm ones."""
    return min(timing.seconds for timing in calm(timings))


def median(timings: list[Timing]) -> float:
    """Return the middle of the calm times."""
    seconds = sorted(timing.seconds for timing in calm(timings))
    return (seconds[(len(seconds) - 1) // 2] + seconds[len(seconds) // 2]) / 2


def _busy_now() -> float:
    before, start = _foreign_seconds(), time.perf_counter()
    time.sleep(_GLANCE)
    return (_foreign_seconds() - before) / (time.perf_counter() - start)


def _foreign_seconds() -> float:
    """Return the time that all cores have spent on anything but this process and its children."""
    if not _STAT.exists():
        return 0.0
    user, nice, system, _, _, irq, softirq, steal = map(
        int, _STAT.read_text().split("\n", 1)[0].split()[1:9]
    )
    busy = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
    return busy - _own_seconds()


def _own_seconds() -> float:
    own = os.times()
    return own.user + own.system + own.children_user + own.children_system
