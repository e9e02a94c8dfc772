"""`RoG`: a generative classifier on the features of a network that was trained plainly.

Lee et al. 2019: features of right labels lie close together in each class, so a robust mean and a
common robust covariance (minimum covariance determinant) give a linear classifier that wrong labels
disturb little. The authors average over several layers; here the last one is used.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from kspr.experiments.baselines.method import Method, Run, classifier_of
from kspr.models.network import Network
from kspr.train.metrics import network_outputs

__all__ = ["RoG", "discriminant", "robust_rows"]


@dataclass(frozen=True)
class RoG(Method):
    """Plain training; the last layer is then replaced by the discriminant of robust Gaussians."""

    steps: int = 2
    """Rounds of concentration on the half of a class that lies closest together."""

    def finish(self, run: Run, network: Network) -> None:
        """Replace the classifier by the one of the Gaussians."""
        classify = classifier_of(network)
        features = network_outputs(network, run.task.inputs, run.pipeline, run.world).features
        label = run.task.label.to(features.device)
        weight, bias = discriminant(features.double(), label, run.task.n_classes, self.steps)
        with torch.no_grad():
            classify.weight.copy_(weight)
            classify.bias.copy_(bias)


def discriminant(
    features: Tensor, label: Tensor, n_classes: int, steps: int = 2
) -> tuple[Tensor, Tensor]:
    """Return weight and bias of linear discriminant analysis on the robust rows of each class.

    A class without rows gets the mean of all, and is predicted where no other class is nearer.
    """
    means = features.mean(dim=0).repeat(n_classes, 1)
    scatter, used = torch.zeros_like(features.T @ features), 0
    for code in torch.unique(label).tolist():
        own = features[label == code]
        own = own[robust_rows(own, steps)]
        means[code] = own.mean(dim=0)
        centred = own - means[code]
        scatter += centred.T @ centred
        used += len(own)
    precision = torch.linalg.inv(_regular(scatter / used))
    weight = means @ precision
    # Equal priors: the labels' frequencies are those of the noise as well.
    return weight, -0.5 * (weight * means).sum(dim=1)


def robust_rows(rows: Tensor, steps: int) -> Tensor:
    """Return the numbers of the half of the rows that lies closest together.

    Each step keeps the rows with the smallest Mahalanobis distance from those kept before: the
    determinant of their covariance never grows.
    """
    kept = torch.arange(len(rows), device=rows.device)
    n = min(len(rows), (len(rows) + rows.shape[1] + 1) // 2)
    for _ in range(steps):
        centred = rows - rows[kept].mean(dim=0)
        precision = torch.linalg.inv(_regular(centred[kept].T @ centred[kept] / len(kept)))
        distance = ((centred @ precision) * centred).sum(dim=1)
        kept = distance.argsort(stable=True)[:n]
    return kept


def _regular(covariance: Tensor) -> Tensor:
    """Return a covariance that can be inverted: units that never fire have no variance."""
    size = covariance.diagonal().mean().clamp_min(1e-12)
    return covariance + 1e-4 * size * torch.eye(
        len(covariance), dtype=covariance.dtype, device=covariance.device
    )
