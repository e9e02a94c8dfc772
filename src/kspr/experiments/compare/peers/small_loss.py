"""Small loss: Co-teaching's rule (Han et al. 2018) on cross-validated losses."""

from dataclasses import dataclass

import numpy as np

from kspr.errors import InputError
from kspr.experiments.compare.peers.shared import Judged, Shared

__all__ = ["SmallLoss"]


@dataclass(frozen=True)
class SmallLoss:
    """Keep the share 1 - e with the smallest loss, where e, the noise rate, must be known.

    The share is of all samples, not of each class: Co-teaching ranks a mini-batch as a whole, and
    the rate of every class is known even less often than the overall one.
    """

    def judge(self, shared: Shared, *, seed: int) -> Judged:
        """Keep the samples with the smallest losses."""
        del seed
        rate = shared.known_rate
        if rate is None:
            raise InputError(
                "The small-loss rule must be told the noise rate: pass Shared(..., known_rate=0.2)."
            )
        own = shared.probabilities()[np.arange(len(shared.y)), shared.y]
        loss = -np.log(np.maximum(own, np.finfo(np.float64).tiny))
        clean = np.zeros(len(loss), dtype=bool)
        clean[np.argsort(loss, kind="stable")[: round((1 - rate) * len(loss))]] = True
        return Judged(clean, loss)
