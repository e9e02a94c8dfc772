"""Trials of a benchmark in a file of JSON lines: read, added one by one, run side by side."""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from rich.progress import track

__all__ = ["add_trial", "read_trials", "run_trials"]


def read_trials(path: Path) -> list[dict[str, Any]]:
    """Return the trials of a file, in the order in which they were measured; none without it."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def add_trial(path: Path, trial: dict[str, Any]) -> None:
    """Append a trial to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as out:
        out.write(json.dumps(trial) + "\n")


def run_trials(
    measure: Callable[..., dict[str, Any]],
    arguments: Sequence[tuple[Any, ...]],
    path: Path,
    workers: int,
) -> None:
    """Call `measure` with each of `arguments` in a process of its own, and store every trial."""
    with ProcessPoolExecutor(workers, max_tasks_per_child=1) as pool:
        waiting = [pool.submit(measure, *given) for given in arguments]
        for future in track(as_completed(waiting), total=len(waiting), description="training"):
            # Stored as soon as it is there: an interruption loses the running trials only.
            add_trial(path, future.result())
