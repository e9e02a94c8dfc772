"""What all benchmarks share: where files are, the CIFAR-10 features, a case, and the machine."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kspr import _packages
from kspr.experiments.reproduce.reproduction import markdown_table

if TYPE_CHECKING:
    from kspr.train import Trained

__all__ = [
    "FEATURES",
    "RESULTS",
    "ROOT",
    "SHARED",
    "Case",
    "Cifar10",
    "Sample",
    "cifar10",
    "machine",
    "markdown_table",
    "memorised",
]

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
SHARED = ROOT.parent / "shared" / "data"
"""Data sets beside the repository."""
FEATURES = SHARED / "cifar10" / "features.npz"


class Cifar10(NamedTuple):
    """Features and true labels of CIFAR-10."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


@cache
def cifar10() -> Cifar10:
    """Return 512 principal components of EfficientNet-Lite0 features, as float32."""
    with np.load(FEATURES) as stored:
        return Cifar10(
            stored["X_train"].astype(np.float32),
            stored["y_train"].astype(np.int64),
            stored["X_test"].astype(np.float32),
            stored["y_test"].astype(np.int64),
        )


@dataclass(frozen=True)
class Sample:
    """Features, given labels, true labels, and rows to test on where a benchmark needs them."""

    X: np.ndarray
    y: np.ndarray
    y_true: np.ndarray
    test: tuple[np.ndarray, np.ndarray] | None = None


@dataclass(frozen=True)
class Case:
    """A data set with one kind of noise; `make` returns it for a seed."""

    data: str
    noise: str
    make: Callable[[int], Sample]
    seeds: int = 1
    group: str = ""
    """The table of the page that shows it."""

    @property
    def name(self) -> str:
        """Data and noise in one text."""
        return f"{self.data}, {self.noise}"


def machine(threads: int) -> dict[str, Any]:
    """Return processor, system, versions, BLAS threads and the commit of the sources."""
    return {
        **_packages.machine("numpy", "scipy", "scikit-learn", "cleanlab", "knockoffs-spr"),
        "blas_threads": threads,
        "commit": _packages.source_commit(),
    }


def memorised(trained: "Trained", X: np.ndarray, y: np.ndarray, truth: np.ndarray) -> float | None:
    """Return the share of wrong labels that the network predicts; None without wrong labels."""
    wrong = y != truth
    if not wrong.any():
        return None
    return float((trained.predict(X[wrong]) == y[wrong]).mean())
