"""What SimSiam puts on a network's features, and how it scores them (Chen and He, 2021)."""

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["Heads", "disagreement", "spread"]


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
