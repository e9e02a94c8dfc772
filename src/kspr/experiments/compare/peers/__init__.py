"""Methods that find wrong labels, ours and those of others, with one interface.

A new method is a class with the function `judge`, and one line in `PEERS`.
"""

from kspr.experiments.compare.peers.others import (
    Cleanlab,
    Datalab,
    Neighbours,
    SmallLoss,
    TopoFilter,
)
from kspr.experiments.compare.peers.ours import ByProbabilities, HalfSPR, Ours, Paper
from kspr.experiments.compare.peers.shared import (
    Charged,
    Judged,
    Peer,
    Shared,
    charge,
    import_needs,
)
from kspr.experiments.compare.peers.simifeat import SimiFeat
from kspr.experiments.compare.peers.softmax import Logistic, LogitMargin, Margins

__all__ = ["PEERS", "Charged", "Judged", "Peer", "Shared", "charge", "import_needs"]

PEERS: dict[str, Peer] = {
    "kspr": Ours(),
    "kspr-per-class": Ours({"cut": "per_class"}),
    "kspr-f1": Ours({"level": "f1", "cut": "pooled"}),
    "kspr-paper": Paper(),
    "spr-half": HalfSPR(),
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
