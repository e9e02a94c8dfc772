"""Methods that change the loss, learn from rows with a small one, or learn how to learn.

`methods.toml` lists them. Each class says where its constants come from; numbers of epochs are kept
as shares of the run.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional

from kspr.experiments.baselines.method import (
    Batch,
    Method,
    Run,
    classifier_of,
    cross_entropies,
)
from kspr.models.network import evaluating
from kspr.train.world import generator_for


@dataclass(frozen=True)
class Standard(Method):
    """Plain training on all given labels."""


@dataclass(frozen=True)
class Forgetting(Method):
    """Dropout on the features, in training only.

    The paper studies dropout among other regularisers. The rate is chosen here: the usual one.
    """

    rate: float = 0.5

    def losses(self, run: Run, batch: Batch) -> Sequence[Tensor]:
        classify = classifier_of(run.learners[0].network)
        features = functional.dropout(run.training_outputs(batch).features, self.rate)
        return [functional.cross_entropy(classify(features), batch.label)]


@dataclass(frozen=True)
class Bootstrap(Method):
    """The target is `share` of the given label, and the prediction for the rest.

    The shares are those of the public code of `SL`, which compares with both forms
    (github.com/YisenWang/symmetric_cross_entropy_for_noisy_labels).
    """

    hard: bool = True
    """Take the predicted class; otherwise the predicted probabilities."""
    share: float | None = None
    """None for 0.8 (hard) and 0.95 (soft)."""

    def losses(self, run: Run, batch: Batch) -> Sequence[Tensor]:
        share = self.share if self.share is not None else (0.8 if self.hard else 0.95)
        (logits,) = run.logits(batch)
        return [bootstrapped(logits, batch.label, share, hard=self.hard).mean()]


def bootstrapped(logits: Tensor, label: Tensor, share: float, *, hard: bool) -> Tensor:
    """Return the loss of each row."""
    log_p = logits.log_softmax(dim=1)
    own = functional.nll_loss(log_p, label, reduction="none")
    # The soft form with its gradient: it lowers the entropy of the prediction.
    predicted = -log_p.amax(dim=1) if hard else -(log_p.exp() * log_p).sum(dim=1)
    return share * own + (1 - share) * predicted


@dataclass(frozen=True)
class GCE(Method):
    """The loss (1 - p^q) / q of the given label's probability p.

    q is that of the paper's experiments (Section 4); the truncated form of its Section 3.3 is not
    here, because the tables compare with the plain one.
    """

    q: float = 0.7

    def losses(self, run: Run, batch: Batch) -> Sequence[Tensor]:
        (logits,) = run.logits(batch)
        return [generalised(logits, batch.label, self.q).mean()]


def generalised(logits: Tensor, label: Tensor, q: float = 0.7) -> Tensor:
    """Return (1 - p^q) / q for each row: cross-entropy as q goes to 0, absolute error at 1."""
    p = logits.softmax(dim=1).gather(1, label[:, None])[:, 0]
    # The slope of p^q has no bound at 0.
    return (1 - p.clamp_min(1e-7) ** q) / q


@dataclass(frozen=True)
class SL(Method):
    """`few` and `many` weigh the two parts, for up to 50 classes and for more.

    The weights are those of the public code for CIFAR-10 and CIFAR-100. For the logarithm of 0 that
    code has -9.2, that of its bound of 1e-4; -4 is chosen here, and less steep.
    """

    few: tuple[float, float] = (0.1, 1.0)
    many: tuple[float, float] = (6.0, 0.1)

    def losses(self, run: Run, batch: Batch) -> Sequence[Tensor]:
        (logits,) = run.logits(batch)
        weights = run.few_or_many(self.few, self.many)
        return [symmetric_cross_entropy(logits, batch.label, *weights).mean()]


def symmetric_cross_entropy(
    logits: Tensor, label: Tensor, alpha: float, beta: float, log_zero: float = -4.0
) -> Tensor:
    """Return ``alpha`` cross-entropy + ``beta`` reverse cross-entropy of each row.

    `log_zero` stands for the logarithm of 0 in the reverse part, whose target is one-hot.
    """
    p = logits.softmax(dim=1).gather(1, label[:, None])[:, 0]
    reverse = -log_zero * (1 - p)
    return alpha * functional.cross_entropy(logits, label, reduction="none") + beta * reverse


@dataclass(frozen=True)
class Forward(Method):
    """Train plainly, estimate the transition matrix, and train again through it.

    The percentiles are those of the public code (github.com/giorgiop/loss-correction): 97 %, and
    the highest row for CIFAR-100.
    """

    few: float = 0.97
    """Which row is the anchor of a class; of more than 50 classes, each has too few rows."""
    many: float = 1.0
    n_stages = 2

    def losses(self, run: Run, batch: Batch) -> Sequence[Tensor]:
        if run.stage == 0:
            return super().losses(run, batch)
        (logits,) = run.logits(batch)
        return [corrected(logits, batch.label, run.memory["transition"]).mean()]

    def after_epoch(self, run: Run) -> None:
        if run.stage_is_done and run.stage == 1:
            percentile = run.few_or_many(self.few, self.many)
            run.memory["transition"] = transition_by_anchors(run.probabilities(), percentile)


def corrected(logits: Tensor, label: Tensor, transition: Tensor) -> Tensor:
    """Return -log of each given label's probability, seen through ``transition[true, given]``."""
    seen = logits.softmax(dim=1) @ transition
    return -seen.gather(1, label[:, None])[:, 0].clamp_min(1e-12).log()


def transition_by_anchors(probabilities: Tensor, percentile: float = 0.97) -> Tensor:
    """Return the matrix whose row i is the prediction for an anchor of class i.

    The anchor is the row at this percentile of the class's probability, among all rows: the very
    highest are often outliers. At 1 it is the highest; a class with fewer than ``1 - percentile``
    of the rows needs that, or the anchor is of another class.
    """
    place = min(int(percentile * len(probabilities)), len(probabilities) - 1)
    order = probabilities.argsort(dim=0, stable=True)
    anchors = torch.stack([probabilities[row] for row in order[place]])
    return anchors / anchors.sum(dim=1, keepdim=True)


def smallest(losses: Tensor, n: int) -> Tensor:
    """Return a mask of the `n` smallest losses; of equal ones, the first."""
    mask = torch.zeros_like(losses, dtype=torch.bool)
    mask[losses.argsort(stable=True)[:n]] = True
    return mask


def mean_over(losses: Tensor, mask: Tensor) -> Tensor:
    """Return the mean of the losses that the mask marks; 0, with a gradient of 0, for none."""
    return (losses * mask).sum() / mask.sum().clamp_min(1)


def keep_share(epoch: int, rate: float, ramp: float) -> float:
    """Return the share of a batch that is kept: 1 at first, 1 - `rate` after `ramp` epochs."""
    return 1 - rate * min(epoch / ramp, 1.0)


def disputed(logits: Sequence[Tensor]) -> Tensor:
    """Return a mask of the rows for which two networks predict different classes."""
    first, second = logits
    return first.argmax(dim=1) != second.argmax(dim=1)


def exchanged(losses: Sequence[Tensor], n: int) -> list[Tensor]:
    """Return the mean loss of each network over the `n` rows that the other finds easiest."""
    first, second = losses
    return [
        mean_over(first, smallest(second.detach(), n)),
        mean_over(second, smallest(first.detach(), n)),
    ]


@dataclass(frozen=True)
class Decoupling(Method):
    """Two networks; a step uses the rows for which they predict different classes.

    The rule has no constant.
    """

    n_learners = 2

    def losses(self, run: Run, batch: Batch) -> Sequence[Tensor]:
        logits = run.logits(batch)
        return [mean_over(own, disputed(logits)) for own in cross_entropies(logits, batch.label)]


@dataclass(frozen=True)
class MentorNet(Method):
    """Learn from rows whose loss is below a moving average of a percentile of the losses.

    The public code (github.com/google/mentornet) has the percentile 0.7 or 0.75 and a decay of 0.5.
    The decay is slower here, because runs of ten epochs have few steps to recover from one batch.
    The share of epochs with all rows is chosen here.
    """

    percentile: float = 0.75
    decay: float = 0.9
    burn_in: float = 0.2
    """Share of the epochs in which all rows are used."""

    def begin(self, run: Run) -> None:
        run.memory["threshold"] = torch.full((), float("nan"))

    def losses(self, run: Run, batch: Batch) -> Sequence[Tensor]:
        (own,) = run.batch_losses(batch)
        now = own.detach().quantile(self.percentile).cpu()
        before = run.memory["threshold"]
        moved = now if before.isnan() else self.decay * before + (1 - self.decay) * now
        run.memory["threshold"] = moved
        if run.progress < self.burn_in:
            return [own.mean()]
        return [mean_over(own, own.detach() <= moved.to(own.device))]


@dataclass(frozen=True)
class CoTeaching(Method):
    """Two networks; each learns from the share of the batch that the other finds easiest.

    Epochs are those of the public code (github.com/bhanML/Co-teaching): the rate that is left out
    rises in a straight line for 10 of 200.
    """

    ramp: float = 0.05
    """Share of the epochs after which the whole noise rate is left out."""
    n_learners = 2
    needs_noise_rate = True

    def losses(self, run: Run, batch: Batch) -> Sequence[Tensor]:
        return exchanged(run.batch_losses(batch), self._kept(run, batch))

    def _kept(self, run: Run, batch: Batch) -> int:
        ramp = self.ramp * run.settings.epochs
        return int(keep_share(run.epoch_of_stage, run.noise_rate or 0.0, ramp) * len(batch.rows))


@dataclass(frozen=True)
class CoTeachingPlus(CoTeaching):
    """After a beginning as in Co-teaching, the same among disputed rows only.

    The public code (github.com/xingruiyu/coteaching_plus) begins with 20 of 200 epochs for
    CIFAR-10, and 5 for CIFAR-100; here it is the former for all data.
    """

    begin_share: float = 0.1
    """Share of the epochs with all rows."""

    def losses(self, run: Run, batch: Batch) -> Sequence[Tensor]:
        if run.progress < self.begin_share:
            return super().losses(run, batch)
        logits = run.logits(batch)
        rows = torch.nonzero(disputed(logits))[:, 0]
        n = int(self._kept(run, batch) / len(batch.rows) * len(rows))
        own = cross_entropies([each[rows] for each in logits], batch.label[rows])
        # At least one, where there is any: as in the authors' code, a step without rows is idle.
        return exchanged(own, max(n, 1))


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
