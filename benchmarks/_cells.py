"""Cells of a benchmark, each in a process of its own, each stored as soon as it is there."""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from rich.progress import track

__all__ = ["run_cells"]


def run_cells(
    measure: Callable[..., dict[str, Any]],
    cells: Sequence[tuple[Any, ...]],
    results: Path,
    workers: int,
) -> None:
    """Measure every cell, and add its record to `results`, a file of JSON lines."""
    results.parent.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(workers, max_tasks_per_child=1) as pool:
        waiting = [pool.submit(measure, *cell) for cell in cells]
        for future in track(as_completed(waiting), total=len(cells), description="training"):
            with results.open("a") as out:
                out.write(json.dumps(future.result()) + "\n")
