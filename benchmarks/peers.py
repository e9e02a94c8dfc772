"""Hold this method and its peers against known truth: `make peers`.

    python benchmarks/peers.py                    # measure what is missing
    python benchmarks/peers.py --only digits      # scenes whose name holds a word
    python benchmarks/peers.py --list

A scene is data and a noise; `kspr compare` measures all methods on it, with one thread each. A
scene that is done is a file in benchmarks/results/peers; one that was interrupted goes on after its
last method. `make results` shows them in docs/results.md.
"""

import argparse
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from kspr.core.noise import asymmetric_cifar10, circular, symmetric
from kspr.experiments.compare.comparing import compare
from sklearn.datasets import load_digits

from _common import FEATURES, ROOT, machine
from kspr._files import staged

STORED = ROOT / "benchmarks" / "results" / "peers"
WORK = ROOT / ".benchmarks" / "peers"
Q, SEED, SPAN = 0.1, 0, 100
SYMMETRIC, ASYMMETRIC = (0.2, 0.4, 0.6, 0.8), (0.2, 0.3, 0.4)


@dataclass(frozen=True)
class Data:
    """Rows with their true labels, and others to test on."""

    X: np.ndarray
    y_true: np.ndarray
    test: tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Scene:
    """Data and the noise that is put on its labels."""

    data: str
    noise: str
    spoil: Callable[[np.ndarray], np.ndarray]
    make: Callable[[], Data]

    @property
    def name(self) -> str:
        """What people call it."""
        return f"{self.data}, {self.noise}"

    @property
    def file(self) -> Path:
        """Where its result is stored."""
        slug = "".join(c if c.isalnum() else "-" for c in self.name.lower())
        return STORED / ("-".join(filter(None, slug.split("-"))) + ".json")


def cifar10() -> Data:
    with np.load(FEATURES) as stored:
        X, y = stored["X_train"].astype(np.float32), stored["y_train"].astype(int)
        return Data(X, y, (stored["X_test"].astype(np.float32), stored["y_test"].astype(int)))


def cifar10_shares() -> Data:
    """Return CIFAR-10 with classes from 5,000 rows down to 50, each a fixed share of the last."""
    whole = cifar10()
    sizes = np.round(5000 * SPAN ** (-np.arange(10) / 9)).astype(int)
    rows = [np.flatnonzero(whole.y_true == k)[:size] for k, size in enumerate(sizes)]
    kept = np.sort(np.concatenate(rows))
    return Data(whole.X[kept], whole.y_true[kept], whole.test)


def digits() -> Data:
    X, y = load_digits(return_X_y=True)
    return Data(X[:1300], y[:1300], (X[1300:], y[1300:]))


def _symmetric(rate: float) -> tuple[str, Callable[[np.ndarray], np.ndarray]]:
    return f"Sym. {round(100 * rate)} %", lambda y: symmetric(y, rate, SEED)


def _cifar_pairs(rate: float) -> tuple[str, Callable[[np.ndarray], np.ndarray]]:
    return f"Asy. {round(100 * rate)} %", lambda y: asymmetric_cifar10(y, rate, SEED)


def _next_class(rate: float) -> tuple[str, Callable[[np.ndarray], np.ndarray]]:
    return f"Asy. {round(100 * rate)} %", lambda y: circular(y, rate, SEED)


SCENES = [
    *(Scene("CIFAR-10", *_symmetric(rate), cifar10) for rate in SYMMETRIC),
    *(Scene("CIFAR-10", *_cifar_pairs(rate), cifar10) for rate in ASYMMETRIC),
    *(Scene("digits", *_symmetric(rate), digits) for rate in (0.2, 0.4)),
    Scene("digits", *_next_class(0.4), digits),
    *(Scene("CIFAR-10 1:100", *_symmetric(rate), cifar10_shares) for rate in (0.2, 0.4)),
]


def measure(scene: Scene) -> None:
    """Measure all methods on a scene, and store what was found."""
    data = scene.make()
    found = compare(
        data.X,
        scene.spoil(data.y_true),
        data.y_true,
        q=Q,
        seed=SEED,
        test=data.test,
        cells=WORK / scene.file.with_suffix(".jsonl").name,
    )
    record: dict[str, Any] = {
        "data": scene.data,
        "noise": scene.noise,
        "command": f"python benchmarks/peers.py --only {scene.name!r}",
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(1),
        **found.to_dict(),
    }
    STORED.mkdir(parents=True, exist_ok=True)
    with staged(scene.file) as staging:
        staging.write_text(json.dumps(record, indent=1) + "\n")
    print(f"\n{scene.name}\n{found}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="scenes whose name holds this")
    parser.add_argument("--list", action="store_true", help="show the scenes, measure nothing")
    given = parser.parse_args()
    chosen = [scene for scene in SCENES if given.only in scene.name]
    if not chosen:
        parser.exit(2, f"No scene's name holds {given.only!r}; --list shows them.\n")
    if given.list:
        for scene in chosen:
            print("done   " if scene.file.exists() else "missing", scene.name)
        return
    if not FEATURES.exists():
        parser.exit(2, f"The shared features are needed and not at {FEATURES}.\n")
    for scene in chosen:
        if not scene.file.exists():
            measure(scene)


if __name__ == "__main__":
    main()
