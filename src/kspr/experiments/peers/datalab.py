"""Datalab's label issues from features alone: the vote of ten neighbours, then cleanlab."""

from dataclasses import dataclass

import numpy as np

from kspr.experiments.peers._extras import extra
from kspr.experiments.peers.peer import Judged
from kspr.experiments.peers.shared import Shared

__all__ = ["Datalab"]


@dataclass(frozen=True)
class Datalab:
    """`cleanlab.Datalab.find_issues(features=...)` for labels, as its users call it."""

    k: int = 10
    needs = ("datasets", "cleanlab.datalab.datalab")

    def judge(self, shared: Shared, *, seed: int) -> Judged:
        """Keep what Datalab does not call an issue; it searches its own neighbours."""
        del seed
        module = extra("cleanlab.datalab.datalab", "Datalab")
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
