"""How SimSiam learns."""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional

from kspr.errors import InputError
from kspr.train.images.augment import ViewSettings

__all__ = ["Heads", "SimSiamSettings", "disagreement", "spread"]


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


class Heads(nn.Module):
    """A projector that ends in batch normalisation, and a predictor with a bottleneck."""

    def __init__(self, n_features: int, width: int, bottleneck: int, layers: int) -> None:
        super().__init__()
        hidden = [_normed(n_features if k == 0 else width, width) for k in range(layers - 1)]
        self.projector = nn.Sequential(
            *(part for pair in hidden for part in (*pair, nn.ReLU(inplace=True))),
            nn.Linear(width if hidden else n_features, width, bias=False),
            nn.BatchNorm1d(width, affine=False),
        )
        self.predictor = nn.Sequential(
            *_normed(width, bottleneck), nn.ReLU(inplace=True), nn.Linear(bottleneck, width)
        )

    def forward(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss of two views' features, and the spread of the first's projections."""
        z_first, z_second = self.projector(first), self.projector(second)
        p_first, p_second = self.predictor(z_first), self.predictor(z_second)
        loss = disagreement(p_first, z_second) / 2 + disagreement(p_second, z_first) / 2
        return loss, spread(z_first)


def _normed(n_in: int, n_out: int) -> tuple[nn.Module, nn.Module]:
    # The normalisation has a shift of its own; a bias before it would do nothing.
    return nn.Linear(n_in, n_out, bias=False), nn.BatchNorm1d(n_out)


def disagreement(predicted: Tensor, target: Tensor) -> Tensor:
    """Return minus the mean cosine, between -1 and 1; no gradient passes to `target`.

    Without that stop all outputs become one: the loss is then as small as it can be.
    """
    return -functional.cosine_similarity(predicted.float(), target.detach().float(), dim=1).mean()


@torch.no_grad()
def spread(outputs: Tensor) -> Tensor:
    """Return how outputs of length 1 vary, where 1 is a Gaussian cloud's and 0 a single point's.

    The standard deviation per dimension, times the root of their number.
    """
    unit = functional.normalize(outputs.float(), dim=1)
    deviation: Tensor = unit.std(0).mean()
    return deviation * float(unit.shape[1] ** 0.5)
