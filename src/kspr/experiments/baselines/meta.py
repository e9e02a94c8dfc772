"""Methods that learn how to learn: what a step would disturb, or which rows count.

`methods.toml` lists them. Each class says where its constants come from; numbers of epochs are kept
as shares of the run.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional

from kspr.experiments.baselines.method import Batch, Method, Run, classifier_of
from kspr.models.network import evaluating
from kspr.train.world import generator_for


@dataclass(frozen=True)
class MetaLearning(Method):
    """Cross-entropy, and the disturbance by a step on labels of neighbours.

    Before each step, labels of half of the batch are replaced by those of near rows, several times.
    A step on such labels should leave the predictions as the averaged network has them; how far it
    does not is added to the loss, with a gradient of first order. The share and the number of
    neighbours are those of the public code (github.com/LiJunnan1992/MLNT), which tries 10 sets of
    labels: 3 cost a third. The share of epochs without the term, and the length of the tried step,
    are chosen here.
    """

    begin_share: float = 0.05
    """Share of the epochs without the second term."""
    n_disturbed: int = 3
    """Sets of replaced labels for each step."""
    replaced: float = 0.5
    neighbours: int = 10
    step: float = 2.0
    """Length of the tried step, in learning rates."""

    def losses(self, run: Run, batch: Batch) -> Sequence[Tensor]:
        (logits,) = run.logits(batch)
        loss = functional.cross_entropy(logits, batch.label)
        if run.progress < self.begin_share:
            return [loss]
        teacher = run.learners[0].average
        with evaluating(teacher):
            told = teacher(batch.view)
        target = told.logits.float().softmax(dim=1)
        how = self.replaced, self.neighbours, batch.draws
        terms = []
        for _ in range(self.n_disturbed):
            label = neighbours_labels(told.features, batch.label, *how)
            after = self._after_step(run, batch, functional.cross_entropy(logits, label))
            terms.append(functional.kl_div(after.log_softmax(1), target, reduction="batchmean"))
        return [loss + torch.stack(terms).mean()]

    def _after_step(self, run: Run, batch: Batch, loss: Tensor) -> Tensor:
        """Return the logits of a batch after a step down a loss, which is not taken."""
        network, length = run.learners[0].network, self.step * run.learners[0].rate
        weights = {name: p for name, p in network.named_parameters() if p.requires_grad}
        slopes = torch.autograd.grad(loss, list(weights.values()), retain_graph=True)
        tried = {
            name: p - length * slope
            for (name, p), slope in zip(weights.items(), slopes, strict=True)
        }
        after: Tensor = functional_call(network, tried, (batch.view,)).logits
        return after


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


@dataclass(frozen=True)
class MetaCleaner(Method):
    """Cross-entropy of weighted means of subsets of a class, with weights that are learned.

    A step does not classify rows but, for each of several classes, one representation that is
    computed ("hallucinated") from a small subset of rows with that label. A second, small network
    looks at the features of a subset together and gives every row a weight; it learns by the same
    loss, because rows of other classes spoil the mean. Predictions need the network alone. Source:
    CVPR 2019, doi 10.1109/CVPR.2019.00755; there is no public code. The form of the weighting
    network and all constants are chosen here: few rows, so that a batch has many subsets, and a
    pace at which the weights follow the features.
    """

    size: int = 5
    """Rows of a subset."""
    hidden: int = 64
    """Units of the weighting network."""
    pace: float = 0.1
    """Learning rate of the weighting network, as a share of the network's."""

    def begin(self, run: Run) -> None:
        width = run.learners[0].network.n_features
        draws = generator_for(run.settings.seed, "network", 0)
        first = torch.randn(width, self.hidden, generator=draws) / width**0.5
        run.memory["first"] = first.to(run.world.device)
        run.memory["second"] = torch.zeros(self.hidden, device=run.world.device)

    def losses(self, run: Run, batch: Batch) -> Sequence[Tensor]:
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
        features = run.training_outputs(batch._replace(view=view)).features
        return batch.label[:n], features.reshape(len(rows), self.size, -1)


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
