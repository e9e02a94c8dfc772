"""How SimSiam learns."""

from dataclasses import dataclass, field

from kspr.errors import InputError
from kspr.train.augment import ViewSettings

__all__ = ["SimSiamSettings"]


@dataclass(frozen=True)
class SimSiamSettings:
    """The paper's 100 epochs for CIFAR; all else, which it leaves open, is SimSiam's for CIFAR."""

    epochs: int = 100
    """350 for WebVision."""
    batch_size: int = 512
    rate: float = 0.03
    """Per 256 images of a batch; it falls along half a cosine to 0."""
    momentum: float = 0.9
    weight_decay: float = 5e-4
    width: int = 2048
    """Of the projector's layers and its output. Small networks on a CPU do well with 256."""
    bottleneck: int = 512
    """The predictor's hidden layer; a quarter of `width`. Its rate stays as it starts."""
    projector_layers: int = 3
    """SimSiam's own CIFAR experiments have 2."""
    views: ViewSettings = field(default_factory=ViewSettings)
    readout_every: int = 5
    """Epochs between two looks at the neighbours, if there are labels."""

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            if getattr(self, name) < least:
                raise InputError(f"{name} must be at least {least}, got {getattr(self, name)}.")
        if not self.rate > 0:
            raise InputError(f"rate must be positive, got {self.rate}.")


_LEAST = {
    "epochs": 0,
    "batch_size": 2,
    "width": 1,
    "bottleneck": 1,
    "projector_layers": 1,
    "readout_every": 1,
}
