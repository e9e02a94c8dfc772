"""What the rows of the benchmark share: the data, the machine, and a file of results."""

import hashlib
import json
import os
import platform
import shlex
import sys
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from kspr.core.noise import symmetric

__all__ = ["Check", "Data", "Results", "Row", "load_data", "machine"]

ROOT = Path(__file__).resolve().parent.parent
FEATURES = ROOT.parent / "shared" / "data" / "cifar10" / "features.npz"
NOISE_RATE = 0.4
N_CLASSES = 10
QUICK_ROWS = 6000


@dataclass(frozen=True)
class Data:
    """Features, labels with known noise, and where they come from."""

    X: np.ndarray
    y: np.ndarray
    y_true: np.ndarray
    source: str

    @property
    def truly_clean(self) -> np.ndarray:
        return np.asarray(self.y == self.y_true)


@dataclass(frozen=True)
class Check:
    """One measured number beside its target; without a target it is there for context."""

    what: str
    value: float
    target: str = ""
    met: bool | None = None

    @classmethod
    def at_most(cls, what: str, value: float, limit: float) -> "Check":
        return cls(what, value, f"<= {limit:g}", value <= limit)

    @classmethod
    def at_least(cls, what: str, value: float, limit: float) -> "Check":
        return cls(what, value, f">= {limit:g}", value >= limit)


@dataclass(frozen=True)
class Row:
    """One row of the benchmark: its checks, every raw number, and what to know about them."""

    name: str
    title: str
    checks: list[Check]
    raw: dict[str, Any]
    notes: list[str] = field(default_factory=list)


def load_data(seed: int, *, quick: bool) -> Data:
    """Return CIFAR-10 features where they are at hand, else made data of their shape."""
    if FEATURES.exists():
        with np.load(FEATURES) as stored:
            X, y_true = stored["X_train"].astype(np.float32), stored["y_train"].astype(np.int64)
        source = "CIFAR-10, 512 principal components of EfficientNet-Lite0 features"
    else:
        X, y_true = _made_data(seed)
        source = "made: overlapping Gaussian classes"
    if quick:
        X, y_true = X[:QUICK_ROWS].copy(), y_true[:QUICK_ROWS]
    return Data(X, symmetric(y_true, NOISE_RATE, seed), y_true, source)


def _made_data(seed: int, n: int = 50_000, p: int = 512) -> tuple[np.ndarray, np.ndarray]:
    """Return classes that overlap as those of real features do, with a decaying spectrum."""
    rng = np.random.default_rng(seed)
    scale = (1 + np.arange(p)) ** -0.5
    means = 0.45 * rng.standard_normal((N_CLASSES, p)) * scale * (np.arange(p) < 32)
    y = rng.integers(N_CLASSES, size=n)
    X = rng.standard_normal((n, p), dtype=np.float32)
    X *= scale.astype(np.float32)
    X += means.astype(np.float32)[y]
    return X, y


def machine(threads: int) -> dict[str, Any]:
    """Return what a reader needs to judge the numbers."""
    packages = ("numpy", "scipy", "scikit-learn", "cleanlab", "knockoffs-spr")
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "blas_threads": threads,
        "system": platform.platform(),
        "versions": {"python": platform.python_version()} | {p: version(p) for p in packages},
        "source": _source_digest(),
    }


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _source_digest() -> str:
    """Return a digest of what a selection runs through: a version is worked on for long."""
    digest = hashlib.sha256()
    for part in ("core", "selectors", "data"):
        for path in sorted((ROOT / "src" / "kspr" / part).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


class Results:
    """A JSON file that holds each row from the moment it is there.

    Rows that were measured under other conditions (machine, versions, data, seed) are dropped:
    a file never mixes them.
    """

    def __init__(self, path: Path, conditions: dict[str, Any]) -> None:
        self._path = path
        self._content: dict[str, Any] = {**conditions, "rows": {}}
        if path.exists():
            before = json.loads(path.read_text())
            if {name: before.get(name) for name in conditions} == conditions:
                self._content = before

    def __contains__(self, name: str) -> bool:
        return name in self._content["rows"]

    def row(self, name: str) -> dict[str, Any]:
        return dict(self._content["rows"][name])

    def add(self, row: Row, seconds: float) -> None:
        """Store a row, with when and how it was measured."""
        entry = asdict(row) | {
            "met": all(check.met for check in row.checks if check.met is not None),
            "seconds": seconds,
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "command": shlex.join(sys.argv),
        }
        self._content["rows"][row.name] = entry
        self._content["rows"] = dict(sorted(self._content["rows"].items()))
        self._write()

    def _write(self) -> None:
        """Write beside and move: whoever reads the file, or stops us, finds it whole."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        beside = self._path.with_suffix(".partial")
        beside.write_text(json.dumps(self._content, indent=1) + "\n")
        beside.replace(self._path)
