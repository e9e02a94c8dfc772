"""SimSiam's settings, its two heads and its loss (Chen and He, 2021)."""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional

from kspr.errors import InputError
from kspr.selectors.validation import check_types
from kspr.train.images.augment import ViewSettings

__all__ = ["Heads", "SimSiamSettings", "disagreement", "spread"]


@dataclass(frozen=True)
class SimSiamSettings:
    """Settings of the pre-training.

    100 epochs are the paper's for CIFAR; the other defaults, which it leaves open, are SimSiam's.
    """

    epochs: int = 100
    """Passes over all images; the paper takes 350 for WebVision."""
    batch_size: int = 512
    """Images per step."""
    rate: float = 0.03
    """Learning rate per 256 images of a batch; it falls along half a cosine to 0."""
    momentum: float = 0.9
    """Momentum of SGD."""
    weight_decay: float = 5e-4
    """Weight decay on all parameters."""
    width: int = 2048
    """Width of the projector's layers and output; 256 is enough for small networks on a CPU."""
    bottleneck: int = 512
    """Width of the predictor's hidden layer; SimSiam takes a quarter of `width`."""
    projector_layers: int = 3
    """Layers of the projector; SimSiam's own CIFAR experiments have 2."""
    views: ViewSettings = field(default_factory=ViewSettings)
    """Augmentations of the two views."""
    readout_every: int = 5
    """Epochs between two measurements of `neighbours_right`, if there are labels."""

    def __post_init__(self) -> None:
        check_types(self)
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
            # As in SimSiam's code, which leaves the last normalisation without scale and shift.
            nn.BatchNorm1d(width, affine=False),
        )
        self.predictor = nn.Sequential(
            *_normed(width, bottleneck), nn.ReLU(inplace=True), nn.Linear(bottleneck, width)
        )

    def forward(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss of the features of two views, and the spread of the first projections."""
        z_first, z_second = self.projector(first), self.projector(second)
        p_first, p_second = self.predictor(z_first), self.predictor(z_second)
        loss = disagreement(p_first, z_second) / 2 + disagreement(p_second, z_first) / 2
        return loss, spread(z_first)


def _normed(n_in: int, n_out: int) -> tuple[nn.Module, nn.Module]:
    # No bias: the normalisation after it subtracts the mean anyway.
    return nn.Linear(n_in, n_out, bias=False), nn.BatchNorm1d(n_out)


def disagreement(predicted: Tensor, target: Tensor) -> Tensor:
    """Return minus the mean cosine, between -1 and 1, without gradient to `target`."""
    # With that gradient all outputs become equal, which minimises the loss (collapse).
    return -functional.cosine_similarity(predicted.float(), target.detach().float(), dim=1).mean()


@torch.no_grad()
def spread(outputs: Tensor) -> Tensor:
    """Return the spread of outputs scaled to length 1: 1 for a Gaussian, 0 for equal outputs.

    It is the standard deviation per dimension times the square root of the number of dimensions.
    """
    unit = functional.normalize(outputs.float(), dim=1)
    deviation: Tensor = unit.std(0).mean()
    # Coordinates of a random unit vector have a deviation of 1 / sqrt(dimensions).
    return deviation * float(unit.shape[1] ** 0.5)
