"""Row d: peak memory of one fit, in a process of its own."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from _common import Check, Row
from _setting import Setting

__all__ = ["row_d"]


def row_d(setting: Setting) -> Row:
    """Measure the peak of one fit in a fresh process, X itself included."""
    raw: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "X.npy", setting.data.X)
        np.save(Path(folder) / "y.npy", setting.data.y)
        for preset in ("default", "paper"):
            raw[preset] = peak_memory(Path(folder), preset, setting.threads)
    checks = [
        Check.at_most(
            f"{preset}: peak, in bytes of X", 1 + found["growth_bytes"] / found["x_bytes"], 3
        )
        for preset, found in raw.items()
    ]
    return Row("d", "peak memory of a fit", checks, raw)


def peak_memory(folder: Path, preset: str, threads: int) -> dict[str, Any]:
    script = Path(__file__).with_name("_peak_memory.py")
    files = (folder / "X.npy", folder / "y.npy")
    command = [sys.executable, str(script), preset, *map(str, files), str(threads)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))
