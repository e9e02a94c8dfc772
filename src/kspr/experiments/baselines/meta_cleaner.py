"""`MetaCleaner`: learn from weighted means of few rows of a class (Zhang, Wang and Qiao 2019).

A step does not classify rows but, for each of several classes, one representation that is made
("hallucinated") from a small subset of rows with that label. A second, small network looks at the
features of a subset together and gives every row a weight; it learns by the same loss, because rows
of other classes spoil the mean. Predictions need the network alone.

Source: MetaCleaner, CVPR 2019, doi 10.1109/CVPR.2019.00755. There is no public code. The size of
the subsets and the form of the weighting network are ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from kspr.experiments.baselines.method import Batch, Method, Run, classifier_of
from kspr.train.randomness import generator_for

__all__ = ["MetaCleaner", "confidences", "same_label_rows"]


@dataclass(frozen=True)
class MetaCleaner(Method):
    """Cross-entropy of weighted means of subsets of a class, with weights that are learned."""

    size: int = 5
    """Rows of a subset."""
    hidden: int = 64
    """Units of the weighting network."""
    pace: float = 0.1
    """Learning rate of the weighting network, as a share of the network's."""

    def begin(self, run: Run) -> None:
        """Begin with a weighting network that gives all rows of a subset the same weight."""
        width = run.learners[0].network.n_features
        draws = generator_for(run.settings.seed, "network", 0)
        first = torch.randn(width, self.hidden, generator=draws) / width**0.5
        run.memory["first"] = first.to(run.world.device)
        run.memory["second"] = torch.zeros(self.hidden, device=run.world.device)

    def losses(self, run: Run, batch: Batch) -> Sequence[Tensor]:
        """Return the loss of the means, and take a step of the weighting network."""
        label, features = self._subsets(run, batch)
        learned = [run.memory[name].requires_grad_() for name in ("first", "second")]
        weight = confidences(features, *learned)
        means = (weight[:, :, None] * features).sum(dim=1)
        logits = classifier_of(run.learners[0].network)(means).float()
        loss = functional.cross_entropy(logits, label)
        slopes = torch.autograd.grad(loss, learned, retain_graph=True)
        rate = self.pace * run.learners[0].rate
        for name, values, slope in zip(("first", "second"), learned, slopes, strict=True):
            run.memory[name] = values.detach() - rate * slope
        return [loss]

    def _subsets(self, run: Run, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return labels and features of as many subsets as the batch has rows for."""
        # As many rows as in plain training pass the network: a step costs the same.
        n = max(len(batch.rows) // self.size, 2)
        rows = same_label_rows(run.task.label, batch.rows[:n], self.size, batch.draws)
        taken = run.task.inputs.take(rows.flatten()).to(run.world.device)
        view = run.pipeline.train_view(taken, batch.draws)
        found = run.training_outputs(batch._replace(view=view)).features
        return batch.label[:n], found.reshape(len(rows), self.size, -1)


def same_label_rows(label: Tensor, rows: Tensor, size: int, draws: torch.Generator) -> Tensor:
    """Return `size` rows for each of `rows`: itself, and others of its label, drawn at random."""
    order, count = label.argsort(stable=True), label.bincount()
    begin = count.cumsum(0) - count
    place = torch.rand(len(rows), size - 1, generator=draws) * count[label[rows]][:, None]
    others = order[begin[label[rows]][:, None] + place.long()]
    return torch.cat([rows[:, None], others], dim=1)


def confidences(features: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Return the weight of each row of each subset, (subsets, size); those of a subset sum to 1.

    A row is compared with the mean of the others, dimension by dimension. A layer of rectified
    units and a linear one turn the products into a score.
    """
    rows = functional.normalize(features, dim=2)
    others = functional.normalize(rows.sum(dim=1, keepdim=True) - rows, dim=2)
    # Of order 1 for any width, so that one learning rate fits all networks.
    products = rows * others * rows.shape[2]
    return ((products @ first).relu() @ second).softmax(dim=1)
