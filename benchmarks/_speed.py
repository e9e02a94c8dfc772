"""What the rows of `speed.py` share: data, checks against targets, timings."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from _clock import Clock, Timing, calm, fastest
from _common import either
from _data import cifar10
from kspr import KnockoffsSPR, SelectionQuality, selection_quality
from kspr.noise import symmetric

__all__ = [
    "NOISE_RATE",
    "Check",
    "Data",
    "Row",
    "Setting",
    "cells",
    "load_data",
    "plain",
    "quality_on",
    "slower",
]

NOISE_RATE = 0.4


@dataclass(frozen=True)
class Data:
    """Features, labels with known noise, and a description of them."""

    X: np.ndarray
    y: np.ndarray
    y_true: np.ndarray
    source: str

    @property
    def truly_clean(self) -> np.ndarray:
        return np.asarray(self.y == self.y_true)


@dataclass(frozen=True)
class Check:
    """One measured number and its target; a number without a target is for context."""

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
    """One row of the benchmark: its checks, all raw numbers, and notes."""

    name: str
    title: str
    checks: list[Check]
    raw: dict[str, Any]
    notes: list[str] = field(default_factory=list)


def load_data(seed: int) -> Data:
    """Return CIFAR-10 features with symmetric noise."""
    X, y_true, _, _ = cifar10()
    source = "CIFAR-10, 512 principal components of EfficientNet-Lite0 features"
    return Data(X, symmetric(y_true, NOISE_RATE, seed), y_true, source)


@dataclass(frozen=True)
class Setting:
    """Data and options that all rows share."""

    data: Data
    seed: int
    threads: int
    pieces: int | None
    repeats: int
    clock: Clock

    def unsplit(self) -> KnockoffsSPR:
        """Return the selector of rows b and c: one piece, 64 dimensions."""
        return KnockoffsSPR(q=0.05, reduction=either(64, 8), progress=False)


def plain(timings: list[Timing]) -> dict[str, Any]:
    """Return timings for the file: all of them, and how many count."""
    return {
        "seconds": [timing.seconds for timing in timings],
        "cpu_seconds": [timing.cpu for timing in timings],
        "cores_of_others": [timing.others for timing in timings],
        "used": len(calm(timings)),
    }


def quality_on(data: Data, mask: np.ndarray, chosen: np.ndarray) -> SelectionQuality:
    """Return the quality of a selection on the chosen rows."""
    return selection_quality(mask[chosen], data.truly_clean[chosen])


def slower(timings: dict[str, list[Timing]], what: str, base: str) -> float:
    """Return how many times longer one thing takes than another."""
    return fastest(timings[what]) / fastest(timings[base])


def cells(checks: Iterable[dict[str, Any]]) -> list[list[str]]:
    """Return stored checks as rows of a table."""
    shown = []
    for check in checks:
        missed = " (missed)" if check["met"] is False else ""
        shown.append([check["what"], f"{check['value']:.3g}{missed}", check["target"] or "-"])
    return shown
