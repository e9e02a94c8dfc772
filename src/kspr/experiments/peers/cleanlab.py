"""Confident learning, as cleanlab implements it (Northcutt, Jiang and Chuang 2021)."""

from dataclasses import dataclass

import numpy as np

from kspr.experiments.peers._extras import extra
from kspr.experiments.peers.peer import Judged
from kspr.experiments.peers.shared import Shared

__all__ = ["Cleanlab"]


@dataclass(frozen=True)
class Cleanlab:
    """One of cleanlab's filters on cross-validated probabilities."""

    filter_by: str
    needs = ("cleanlab.filter", "cleanlab.count", "cleanlab.rank")

    def judge(self, shared: Shared, *, seed: int) -> Judged:
        """Keep what the filter does not call an issue; rank by self-confidence, cleanlab's own."""
        del seed
        filters, count, rank = (extra(name, "The filter of cleanlab") for name in self.needs)
        probabilities = shared.probabilities()
        issues = filters.find_label_issues(
            shared.y, probabilities, filter_by=self.filter_by, n_jobs=1
        )
        quality = rank.get_label_quality_scores(shared.y, probabilities)
        joint = count.estimate_joint(shared.y, probabilities)
        return Judged(~issues, -quality, float(1 - np.trace(joint)))
