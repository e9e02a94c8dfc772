"""Row f: a million rows from a file, through the command line."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from _common import Check, Row

__all__ = ["million_rows"]

ROWS, COLUMNS, CLASSES = 1_000_000, 256, 10
QUICK_ROWS = 50_000
LIMIT_GB = 1.5

_MEASURED = """
import json, sys, time
sys.path.insert(0, {folder!r})
from _peak_memory import peak
from kspr.cli import main
start = time.perf_counter()
main(sys.argv[1:])
# Not ru_maxrss: a child begins with that of its parent, which holds the whole benchmark.
print(json.dumps({{"seconds": time.perf_counter() - start, "peak_bytes": peak()}}))
"""


def million_rows(seed: int, *, quick: bool) -> Row:
    """Select from a million half-precision rows, and set it beside reading them once."""
    n = QUICK_ROWS if quick else ROWS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write(folder, n, seed)
        read_seconds = min(_read_once(folder / "x.npy") for _ in range(3))
        found = _select(folder)
    gigabytes = found["peak_bytes"] / 1e9
    checks = [
        Check.at_most("peak memory of `kspr select`, GB", gigabytes, LIMIT_GB),
        Check("times reading the file once", found["seconds"] / read_seconds),
    ]
    raw = {**found, "read_seconds": read_seconds, "rows": n, "columns": COLUMNS}
    return Row("f", f"{n:,} x {COLUMNS} float16 from a file", checks, raw)


def _write(folder: Path, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    y = rng.integers(CLASSES, size=n)
    centres = 0.3 * rng.standard_normal((CLASSES, COLUMNS), dtype=np.float32)
    X = np.lib.format.open_memmap(folder / "x.npy", "w+", np.float16, (n, COLUMNS))
    for start in range(0, n, 50_000):
        part = slice(start, start + 50_000)
        X[part] = centres[y[part]] + rng.standard_normal((len(y[part]), COLUMNS), dtype=np.float32)
    X.flush()
    wrong = rng.random(n) < 0.3
    np.save(folder / "y.npy", np.where(wrong, rng.integers(CLASSES, size=n), y))


def _read_once(path: Path) -> float:
    start = time.perf_counter()
    with path.open("rb", buffering=0) as file:
        while file.read(16 << 20):
            pass
    return time.perf_counter() - start


def _select(folder: Path) -> dict[str, Any]:
    script = _MEASURED.format(folder=str(Path(__file__).parent))
    arguments = ["select", folder / "x.npy", "--labels", folder / "y.npy", "--out", folder / "run"]
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer
