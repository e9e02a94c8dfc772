"""Confident learning, as cleanlab implements it (Northcutt, Jiang and Chuang 2021)."""

from dataclasses import dataclass

import numpy as np

from kspr._packages import require
from kspr.experiments.compare.peers.shared import PACKAGE, Judged, Shared

__all__ = ["Cleanlab", "Datalab"]


@dataclass(frozen=True)
class Cleanlab:
    """One of cleanlab's filters on cross-validated probabilities."""

    filter_by: str
    needs = ("cleanlab.filter", "cleanlab.count", "cleanlab.rank")

    def judge(self, shared: Shared, *, seed: int) -> Judged:
        """Keep what the filter does not call an issue; rank by self-confidence, cleanlab's own."""
        del seed
        filters, count, rank = (
            require(name, "The filter of cleanlab", PACKAGE) for name in self.needs
        )
        probabilities = shared.probabilities()
        issues = filters.find_label_issues(
            shared.y, probabilities, filter_by=self.filter_by, n_jobs=1
        )
        quality = rank.get_label_quality_scores(shared.y, probabilities)
        joint = count.estimate_joint(shared.y, probabilities)
        return Judged(~issues, -quality, float(1 - np.trace(joint)))


@dataclass(frozen=True)
class Datalab:
    """`cleanlab.Datalab.find_issues(features=...)` for labels, as its users call it."""

    k: int = 10
    needs = ("datasets", "cleanlab.datalab.datalab")

    def judge(self, shared: Shared, *, seed: int) -> Judged:
        """Keep what Datalab does not call an issue; it searches its own neighbours."""
        del seed
        module = require("cleanlab.datalab.datalab", "Datalab", PACKAGE)
        lab = module.Datalab({"y": shared.y}, label_name="y", task="classification", verbosity=0)
        k = min(self.k, len(shared.y) - 2)
        lab.find_issues(features=shared.X, issue_types={"label": {"k": k}})
        issues = lab.get_issues("label")
        joint = np.asarray(lab.get_info("label")["confident_joint"], dtype=float)
        return Judged(
            ~issues["is_label_issue"].to_numpy(),
            -issues["label_score"].to_numpy(),
            float(1 - np.trace(joint) / joint.sum()),
        )
