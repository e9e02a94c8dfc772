"""Networks that give features and logits in one pass; one architecture a file."""

from kspr.train.backbones._build import NAMES, build_network
from kspr.train.backbones._network import Network, Outputs, evaluating
from kspr.train.backbones._wrap import wrap_network

__all__ = ["NAMES", "Network", "Outputs", "build_network", "evaluating", "wrap_network"]
