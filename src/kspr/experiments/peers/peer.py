"""The seam: what a method is asked, and what it answers."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kspr.experiments.peers.shared import Shared

__all__ = ["Judged", "Peer"]


@dataclass(frozen=True, eq=False)
class Judged:
    """A method's answer: what it keeps, and how it ranks."""

    clean: np.ndarray
    """True where the label is trusted."""
    suspicion: np.ndarray
    """One number per sample, large where the label is suspicious."""
    noise_rate: float | None = None
    """Estimated share of wrong labels; None for methods that do not say, or are told."""


class Peer(Protocol):
    """A method that judges labels.

    One that imports an optional package names the modules in an attribute `needs`, so that a
    comparison can say at its start what is missing, and import it before it looks at the clock.
    """

    def judge(self, shared: Shared, *, seed: int) -> Judged:
        """Judge every label; the answer depends on `shared` and `seed` alone."""
        ...
