"""`MetaLearning`: steps that wrong labels would disturb little (Li et al. 2019).

Before each step, labels of half of the batch are replaced by those of near rows, several times. A
step on such labels should leave the predictions as the averaged network has them; how far it does
not is added to the loss. The gradient of that term is taken to first order. The share of replaced
labels and the number of neighbours are those of the public code (github.com/LiJunnan1992/MLNT).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional

from kspr.experiments.baselines.method import Batch, Method, Run
from kspr.models.network import evaluating

__all__ = ["MetaLearning", "neighbours_labels"]


@dataclass(frozen=True)
class MetaLearning(Method):
    """Cross-entropy, and the disturbance by a step on labels of neighbours."""

    begin_share: float = 0.05
    """Share of the epochs without the second term."""
    n_disturbed: int = 3
    """Sets of replaced labels for each step; the authors take 10, at three times the cost."""
    replaced: float = 0.5
    neighbours: int = 10
    step: float = 2.0
    """Length of the tried step, in learning rates."""

    def losses(self, run: Run, batch: Batch) -> Sequence[Tensor]:
        """Return the cross-entropy, with the mean disturbance after the beginning."""
        (logits,) = run.logits(batch)
        loss = functional.cross_entropy(logits, batch.label)
        if run.progress < self.begin_share:
            return [loss]
        teacher = run.learners[0].average
        with evaluating(teacher):
            told = teacher(batch.view)
        target = told.logits.float().softmax(dim=1)
        terms = [
            self._disturbance(run, batch, logits, told.features, target)
            for _ in range(self.n_disturbed)
        ]
        return [loss + torch.stack(terms).mean()]

    def _disturbance(
        self, run: Run, batch: Batch, logits: Tensor, features: Tensor, target: Tensor
    ) -> Tensor:
        label = neighbours_labels(
            features, batch.label, self.replaced, self.neighbours, batch.draws
        )
        network = run.learners[0].network
        weights = {name: p for name, p in network.named_parameters() if p.requires_grad}
        slopes = torch.autograd.grad(
            functional.cross_entropy(logits, label), list(weights.values()), retain_graph=True
        )
        length = self.step * run.learners[0].rate
        tried = {
            name: p - length * slope
            for (name, p), slope in zip(weights.items(), slopes, strict=True)
        }
        found = functional_call(network, tried, (batch.view,)).logits
        return functional.kl_div(found.log_softmax(dim=1), target, reduction="batchmean")


def neighbours_labels(
    features: Tensor, label: Tensor, share: float, k: int, draws: torch.Generator
) -> Tensor:
    """Return labels of which a random `share` is that of one of the `k` nearest rows."""
    n, k = len(label), min(k, len(label) - 1)
    chosen = torch.randperm(n, generator=draws)[: int(share * n)].to(label.device)
    distance = torch.cdist(features, features).fill_diagonal_(float("inf"))
    nearest = distance[chosen].topk(k, dim=1, largest=False).indices
    pick = torch.randint(k, (len(chosen), 1), generator=draws).to(label.device)
    changed = label.clone()
    changed[chosen] = label[nearest.gather(1, pick)[:, 0]]
    return changed
