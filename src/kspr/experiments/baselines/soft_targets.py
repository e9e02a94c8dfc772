"""Methods that replace the given labels little by little, row by row.

- `ELR`: keeps the network near its early predictions (Liu et al. 2020).
- `JointOptim`: labels become the mean of recent predictions; then training again (Tanaka et al.
  2018).
- `PENCIL`: labels are parameters with a gradient of their own (Yi and Wu 2019).
- `D2L`: labels move to predictions as the dimension of features rises (Ma et al. 2018).

Numbers of epochs in these papers are kept as shares of the run. Constants of `ELR` and `D2L` are
those of their public code (github.com/shengliu66/ELR; xingjunm/dimensionality-driven-learning), and
so are the epochs of `PENCIL` (yikun2019/PENCIL) and of `JointOptim`
(DaikiTanaka-UT/JointOptimization). Their other constants differ: docs/methods.md says how.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from kspr.experiments.baselines.method import Batch, Method, Run
from kspr.train.learner import soft_loss
from kspr.train.randomness import generator_for

__all__ = [
    "D2L",
    "ELR",
    "PENCIL",
    "JointOptim",
    "early_learning_term",
    "entropy",
    "has_risen",
    "intrinsic_dimension",
    "prior_term",
]


def prior_term(p: Tensor) -> Tensor:
    """Return the divergence of the batch's mean prediction from equal classes."""
    mean = p.mean(dim=0).clamp_min(1e-12)
    return -(mean * p.shape[1]).log().mean()


def entropy(p: Tensor) -> Tensor:
    """Return the mean entropy of predictions."""
    return -(p * p.clamp_min(1e-12).log()).sum(dim=1).mean()


@dataclass(frozen=True)
class ELR(Method):
    """Cross-entropy, and a reward for agreeing with the moving average of own predictions.

    `few` and `many` are the weight and the share of the average that a step keeps.
    """

    few: tuple[float, float] = (3.0, 0.7)
    many: tuple[float, float] = (7.0, 0.9)

    def begin(self, run: Run) -> None:
        """Begin with an empty average."""
        run.memory["average"] = torch.zeros_like(run.one_hot)

    def losses(self, run: Run, batch: Batch) -> Sequence[Tensor]:
        """Move the averages of the batch's rows, and return the loss."""
        weight, kept = run.few_or_many(self.few, self.many)
        (logits,) = run.logits(batch)
        p = logits.softmax(dim=1).clamp(1e-4, 1 - 1e-4)
        share = p.detach() / p.detach().sum(dim=1, keepdim=True)
        rows = batch.rows.to(p.device)
        average = kept * run.memory["average"][rows] + (1 - kept) * share
        run.memory["average"][rows] = average
        loss = functional.cross_entropy(logits, batch.label)
        return [loss + weight * early_learning_term(p, average)]


def early_learning_term(p: Tensor, average: Tensor) -> Tensor:
    """Return the mean of log(1 - <p, average>): small where both agree."""
    return (1 - (p * average).sum(dim=1)).log().mean()


@dataclass(frozen=True)
class JointOptim(Method):
    """Learn network and labels in turn; then learn again, from the labels that were found."""

    begin_share: float = 0.35
    """Share of the epochs on given labels: 70 of 200."""
    window: float = 0.05
    """Predictions that a label is the mean of, as a share of the epochs: 10 of 200."""
    prior: float = 1.2
    confidence: float = 0.8
    n_stages = 2

    def begin(self, run: Run) -> None:
        """Begin with the given labels."""
        run.memory["target"] = run.one_hot
        run.memory["recent"] = run.one_hot[None][:0]

    def losses(self, run: Run, batch: Batch) -> Sequence[Tensor]:
        """Return the loss against the present labels; the first stage avoids trivial answers."""
        (logits,) = run.logits(batch)
        loss = soft_loss(logits, run.memory["target"][batch.rows.to(logits.device)])
        if run.stage == 0:
            p = logits.softmax(dim=1)
            loss = loss + self.prior * prior_term(p) + self.confidence * entropy(p)
        return [loss]

    def after_epoch(self, run: Run) -> None:
        """Let the labels be the mean of the last predictions, in the first stage."""
        if run.epoch > run.settings.epochs:
            return
        n = max(1, round(self.window * run.settings.epochs))
        run.memory["recent"] = torch.cat([run.memory["recent"], run.probabilities()[None]])[-n:]
        if run.epoch >= self.begin_share * run.settings.epochs:
            run.memory["target"] = run.memory["recent"].mean(dim=0)


@dataclass(frozen=True)
class PENCIL(Method):
    """Train plainly, then network and labels together, then on the labels that were found."""

    begin_share: float = 70 / 320
    end_share: float = 200 / 320
    scale: float = 10.0
    """Logit of the given label at first."""
    rate: float = 10_000.0
    """Learning rate of the labels, for the mean loss of batches of 128."""
    compatible: float = 0.1
    confidence: float = 0.4

    def begin(self, run: Run) -> None:
        """Begin with labels close to the given ones."""
        run.memory["label_logits"] = self.scale * run.one_hot

    def losses(self, run: Run, batch: Batch) -> Sequence[Tensor]:
        """Return the loss of this part of the run; in the middle, move the labels too."""
        (logits,) = run.logits(batch)
        if run.progress < self.begin_share:
            return [functional.cross_entropy(logits, batch.label)]
        rows = batch.rows.to(logits.device)
        learned = run.memory["label_logits"][rows].requires_grad_()
        loss = self._loss(logits, learned, batch.label, moving=run.progress < self.end_share)
        if run.progress < self.end_share:
            (slope,) = torch.autograd.grad(loss, learned, retain_graph=True)
            # A row's share of the mean loss: the step must not depend on the size of the batch.
            run.memory["label_logits"][rows] -= self.rate * len(rows) / 128 * slope
        return [loss]

    def _loss(self, logits: Tensor, learned: Tensor, label: Tensor, *, moving: bool) -> Tensor:
        log_p, log_d = logits.log_softmax(dim=1), learned.log_softmax(dim=1)
        # Of the two directions of the divergence, the one that the authors found better.
        loss = (log_p.exp() * (log_p - log_d)).sum(dim=1).mean() / logits.shape[1]
        if not moving:
            return loss
        near = functional.nll_loss(log_d, label)
        return (
            loss + self.compatible * near + self.confidence * entropy(log_p.exp()) / logits.shape[1]
        )


@dataclass(frozen=True)
class D2L(Method):
    """Watch the local dimension of the features; once it rises, trust labels less and less."""

    window: float = 5 / 120
    """Epochs that a rise is measured against, as a share of the run; at least two."""
    neighbours: int = 20
    batches: int = 10

    def begin(self, run: Run) -> None:
        """Begin with full trust in the given labels."""
        run.memory["trust"] = torch.ones(())
        run.memory["dimensions"] = torch.zeros(0)

    def losses(self, run: Run, batch: Batch) -> Sequence[Tensor]:
        """Return the loss against labels mixed with the network's predictions."""
        (logits,) = run.logits(batch)
        trust = float(run.memory["trust"])
        given = functional.cross_entropy(logits, batch.label)
        predicted = functional.cross_entropy(logits, logits.argmax(dim=1))
        return [trust * given + (1 - trust) * predicted]

    def after_epoch(self, run: Run) -> None:
        """Measure the dimension; at its first rise, go back one epoch and begin to mix."""
        now = self._dimension(run)
        before = run.memory["dimensions"]
        recent = before[-max(2, round(self.window * run.settings.epochs)) :]
        run.memory["dimensions"] = torch.cat([before, now[None]])
        learner = run.learners[0]
        if "turned" not in run.memory and has_risen(now, recent):
            run.memory["turned"] = torch.tensor(run.epoch)
            # The number of steps stays: the learning rate goes on falling.
            learner.load({**run.memory.pop("last_epoch"), "steps": learner.steps})
        if "turned" in run.memory:
            ratio = float(now / before.min())
            run.memory["trust"] = torch.tensor(math.exp(-run.progress * ratio))
        else:
            run.memory["last_epoch"] = copy.deepcopy(learner.state())

    def _dimension(self, run: Run) -> Tensor:
        generator = generator_for(run.settings.seed, "split", run.epoch)
        n, size = len(run.task.label), min(128, len(run.task.label))
        draws = [torch.randperm(n, generator=generator)[:size] for _ in range(self.batches)]
        features = (run.outputs(rows=rows).features for rows in draws)
        return torch.stack([intrinsic_dimension(f, self.neighbours) for f in features]).mean().cpu()


def has_risen(now: Tensor, recent: Tensor) -> bool:
    """Return whether `now` lies two standard deviations above the mean of two or more values."""
    return len(recent) >= 2 and bool(now > recent.mean() + 2 * recent.std(correction=0))


def intrinsic_dimension(features: Tensor, k: int) -> Tensor:
    """Return the mean maximum-likelihood estimate of the local dimension around each row."""
    k = min(k, len(features) - 1)
    # The first of the sorted distances is a row's distance to itself.
    distance = torch.cdist(features, features).sort(dim=1).values[:, 1 : k + 1].clamp_min(1e-12)
    spread = (distance / distance[:, -1:]).log().mean(dim=1)
    return -(1 / spread.clamp_max(-1e-12)).mean()
