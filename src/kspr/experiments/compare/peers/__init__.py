"""Methods that find wrong labels, ours and those of others, with one interface.

A new method is a class with the function `judge`, and one line in `PEERS`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kspr.experiments.compare.peers.others import (
    Cleanlab,
    Datalab,
    Logistic,
    LogitMargin,
    Margins,
    Neighbours,
    SimiFeat,
    SmallLoss,
    TopoFilter,
)
from kspr.experiments.compare.peers.shared import Judged, Peer, Shared, charge, import_needs
from kspr.selectors import ProbabilitySelector, Selection, from_preset

__all__ = ["PEERS", "ByProbabilities", "Judged", "Ours", "Peer", "Shared", "charge", "import_needs"]


@dataclass(frozen=True)
class Ours:
    """A selector of this package, with any of its parameters changed.

    The default selector is asked for the level of the comparison. The others have their own rule:
    the paper's search for a level from 0.02, and the share of each class that SPR keeps.
    """

    preset: str = "default"
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def judge(self, shared: Shared, *, seed: int) -> Judged:
        """Keep what the selector keeps."""
        level = {"q": shared.q} if self.preset == "default" else {}
        chosen = {**level, "random_state": seed, "progress": False, **self.parameters}
        return _judged(from_preset(self.preset, **chosen).fit(shared.X, shared.y).selection_)


@dataclass(frozen=True)
class ByProbabilities:
    """`ProbabilitySelector` on the probabilities that cleanlab's filters get."""

    parameters: Mapping[str, Any] = field(default_factory=dict)
    by_probabilities = True

    def judge(self, shared: Shared, *, seed: int) -> Judged:
        """Keep what the control keeps; nothing is drawn at random."""
        del seed
        model = ProbabilitySelector(**{"q": shared.q, **self.parameters})
        return _judged(model.fit(shared.probabilities(), shared.y).selection_)


def _judged(selection: Selection) -> Judged:
    rate = None if selection.noise is None else selection.noise.rate
    return Judged(selection.clean_mask, selection.suspicion, rate)


PEERS: dict[str, Peer] = {
    "kspr": Ours(),
    "kspr-per-class": Ours(parameters={"cut": "per_class"}),
    "kspr-f1": Ours(parameters={"level": "f1", "cut": "pooled"}),
    "kspr-paper": Ours("paper"),
    "spr-half": Ours("spr", {"clean_ratio": 0.5}),
    "kspr-probabilities": ByProbabilities(),
    "cleanlab-noise-rate": Cleanlab("prune_by_noise_rate"),
    "cleanlab-class": Cleanlab("prune_by_class"),
    "cleanlab-both": Cleanlab("both"),
    "cleanlab-confident": Cleanlab("confident_learning"),
    "cleanlab-self-confidence": Cleanlab("low_self_confidence"),
    "datalab": Datalab(),
    "small-loss": SmallLoss(),
    "neighbours": Neighbours(),
    "topofilter": TopoFilter(),
    "margins": Margins(),
    "logit-margin": LogitMargin(),
    "logistic": Logistic(),
    "simifeat-vote": SimiFeat("vote"),
    "simifeat-rank": SimiFeat("rank"),
}
