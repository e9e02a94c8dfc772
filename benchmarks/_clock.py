"""A clock for a machine that runs other work too; and the peak of memory.

Threads of linear algebra wait for each other, so other work slows them down far more than its
share of the machine: a fit of 0.8 s takes 4 to 25 s beside a test suite on two cores. So every
timing waits until the machine is idle, and records how busy it was meanwhile.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = [
    "Clock",
    "Timing",
    "calm",
    "fastest",
    "foreign_seconds",
    "in_process",
    "median",
    "peak",
    "reset_peak",
]

_STAT = Path("/proc/stat")
_CALM = 0.3
"""Cores that other work may use during a timing that counts as undisturbed."""
_ROUNDING = 0.02
"""Seconds that may be rounding: the system counts in steps of 0.01 s."""
_GLANCE = 0.25
"""Seconds over which the machine is watched before a timing."""


@dataclass(frozen=True)
class Timing:
    """Seconds, processor seconds, and the cores that other work used meanwhile."""

    seconds: float
    cpu: float
    others: float


class Clock:
    """Time functions, each when the machine is idle; `patience` is the longest wait in all."""

    def __init__(self, patience: float) -> None:
        self.patience = patience

    def time(self, work: Callable[[], object]) -> Timing:
        """Call the function once and return its timing."""
        self._wait()
        before, own, start = foreign_seconds(), _own_seconds(), time.perf_counter()
        work()
        seconds, cpu = time.perf_counter() - start, _own_seconds() - own
        others = max(0.0, foreign_seconds() - before - _ROUNDING) / seconds
        return Timing(seconds, round(cpu, 3), round(others, 3))

    def alternate(self, repeats: int, **works: Callable[[], object]) -> dict[str, list[Timing]]:
        """Time the functions in turn, so that a busy machine disturbs all of them alike."""
        timings: dict[str, list[Timing]] = {name: [] for name in works}
        for _ in range(repeats):
            for name, work in works.items():
                timings[name].append(self.time(work))
        return timings

    def _wait(self) -> None:
        while self.patience > 0 and _busy_now() > _CALM:
            time.sleep(1)
            self.patience -= 1 + _GLANCE


def calm(timings: list[Timing]) -> list[Timing]:
    """Return the undisturbed timings, or the least disturbed third if these are more."""
    found = [timing for timing in timings if timing.others <= _CALM]
    ordered = sorted(timings, key=lambda timing: timing.others)
    least = ordered[: max(1, len(timings) // 3)]
    return found if len(found) > len(least) else least


def fastest(timings: list[Timing]) -> float:
    """Return the shortest of the undisturbed times."""
    return min(timing.seconds for timing in calm(timings))


def median(timings: list[Timing]) -> float:
    """Return the median of the undisturbed times."""
    seconds = sorted(timing.seconds for timing in calm(timings))
    return (seconds[(len(seconds) - 1) // 2] + seconds[len(seconds) // 2]) / 2


def _busy_now() -> float:
    before, start = foreign_seconds(), time.perf_counter()
    time.sleep(_GLANCE)
    return (foreign_seconds() - before) / (time.perf_counter() - start)


def foreign_seconds() -> float:
    """Return the seconds that all cores have spent on processes of others."""
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


# Memory -------------------------------------------------------------------------------------------


def in_process(script: str, *words: object, **environment: str) -> Any:
    """Return what ``script --child`` prints as JSON, in a process whose peak is that of its work.

    Memory that this process has freed could be used again, and not show up.
    """
    done = subprocess.run(
        [sys.executable, script, "--child", *map(str, words)],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    return json.loads(done.stdout.splitlines()[-1])


def reset_peak() -> bool:
    """Reset the peak of resident memory; return False where the system cannot."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def peak(entry: str = "VmHWM") -> int:
    """Return the bytes of resident memory at their peak; with ``VmRSS``, now."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{entry}:")).split()[1]) * 1024
