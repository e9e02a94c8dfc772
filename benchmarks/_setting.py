"""What the rows of `speed.py` share: their setting, and how timings are told."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from _clock import Clock, Timing, calm, fastest
from _common import Data
from kspr import KnockoffsSPR
from kspr.core.metrics import SelectionQuality, selection_quality

__all__ = ["Setting", "plain", "quality_on", "slower"]


@dataclass(frozen=True)
class Setting:
    """What all rows share."""

    data: Data
    seed: int
    threads: int
    pieces: int | None
    repeats: int
    clock: Clock

    def unsplit(self) -> KnockoffsSPR:
        """Return the selector of rows b and c."""
        return KnockoffsSPR(q=0.05, reduction=64, progress=False)


def plain(timings: list[Timing]) -> dict[str, Any]:
    """Return timings for the file: all of them, and how many were undisturbed."""
    return {
        "seconds": [timing.seconds for timing in timings],
        "cpu_seconds": [timing.cpu for timing in timings],
        "cores_of_others": [timing.others for timing in timings],
        "used": len(calm(timings)),
    }


def quality_on(data: Data, mask: np.ndarray, chosen: np.ndarray) -> SelectionQuality:
    return selection_quality(mask[chosen], data.truly_clean[chosen])


def slower(timings: dict[str, list[Timing]], what: str, base: str) -> float:
    return fastest(timings[what]) / fastest(timings[base])
