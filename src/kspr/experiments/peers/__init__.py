"""The methods people use today, and ours, behind one seam.

A method is one small file with a class that can `judge`, and one line in `PEERS`.
"""

from kspr.experiments.peers._extras import import_needs
from kspr.experiments.peers.cleanlab import Cleanlab
from kspr.experiments.peers.datalab import Datalab
from kspr.experiments.peers.margins import Margins
from kspr.experiments.peers.neighbours import Neighbours
from kspr.experiments.peers.ours import HalfSPR, Ours, Paper
from kspr.experiments.peers.peer import Judged, Peer
from kspr.experiments.peers.shared import Charged, Shared, charge
from kspr.experiments.peers.small_loss import SmallLoss
from kspr.experiments.peers.topofilter import TopoFilter

__all__ = ["PEERS", "Charged", "Judged", "Peer", "Shared", "charge", "import_needs"]

PEERS: dict[str, Peer] = {
    "kspr": Ours(),
    "kspr-pooled": Ours({"cut": "pooled"}),
    "kspr-f1": Ours({"level": "f1", "cut": "pooled"}),
    "kspr-paper": Paper(),
    "spr-half": HalfSPR(),
    "cleanlab-noise-rate": Cleanlab("prune_by_noise_rate"),
    "cleanlab-class": Cleanlab("prune_by_class"),
    "cleanlab-both": Cleanlab("both"),
    "cleanlab-confident": Cleanlab("confident_learning"),
    "datalab": Datalab(),
    "small-loss": SmallLoss(),
    "neighbours": Neighbours(),
    "topofilter": TopoFilter(),
    "margins": Margins(),
}
