"""Methods that judge rows by the features of a network, and train on, weigh or replace by that.

`methods.toml` lists them. Each class says where its constants come from; numbers of epochs are kept
as shares of the run.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from sklearn.neighbors import LocalOutlierFactor
from torch import Tensor
from torch.nn import functional

from kspr.experiments.baselines.losses import exchanged, generalised, keep_share, mean_over
from kspr.experiments.baselines.method import (
    KEPT,
    Batch,
    Method,
    Run,
    classifier_of,
    cross_entropies,
)
from kspr.experiments.compare.peers.others import TopoFilter as Components
from kspr.experiments.compare.peers.shared import Shared
from kspr.models.network import Network
from kspr.train.task import network_outputs
from kspr.train.world import generator_for


def _due(run: Run, begin: float, every: float) -> bool:
    """Return whether rows are judged after this epoch: from `begin` on, once in `every`."""
    epochs = run.settings.epochs
    first, step = max(1, round(begin * epochs)), max(1, round(every * epochs))
    return first <= run.epoch < epochs and (run.epoch - first) % step == 0


@dataclass(frozen=True)
class TopoFilter(Method):
    """Train on the rows that the filter of `kspr compare` keeps, by the network's features.

    The public code (github.com/pxiangwu/TopoFilter) begins at epoch 30 of 180, as here, and judges
    every 5 epochs in all dimensions. Both are coarser here: its search in C++ is not.
    """

    begin_share: float = 1 / 6
    every: float = 0.4
    """Share of the run between two judgements."""
    dimensions: int = 32
    """Principal components that neighbours are searched in."""

    def after_epoch(self, run: Run) -> None:
        if not _due(run, self.begin_share, self.every):
            return
        features = run.outputs().features
        _, _, directions = torch.linalg.svd(_centred(features, 5_000), full_matrices=False)
        reduced = (features - features.mean(dim=0)) @ directions[: self.dimensions].T
        shared = Shared(reduced.cpu().numpy(), run.task.label.numpy(), run.task.n_classes)
        kept = Components().judge(shared, seed=run.settings.seed).clean
        # Two rows are the least that batch normalisation can use.
        if kept.sum() >= 2:
            run.memory[KEPT] = torch.from_numpy(kept)


def _centred(features: Tensor, most: int) -> Tensor:
    """Return evenly spaced rows, at most `most` of them, without their mean."""
    rows = torch.linspace(0, len(features) - 1, min(most, len(features))).long()
    return features[rows] - features[rows].mean(dim=0)


@dataclass(frozen=True)
class IterNLD(Method):
    """Outliers of a class count less in the loss, and their features are pushed away.

    All constants are chosen here: there is no public code, and the paper's were not at hand. Twenty
    neighbours are what local outlier factors are usually computed with; the contrastive term counts
    little, so that the cross-entropy leads.
    """

    begin_share: float = 0.2
    every: float = 0.2
    neighbours: int = 20
    margin: float = 1.0
    weight: float = 0.1
    """Weight of the contrastive term."""

    def begin(self, run: Run) -> None:
        run.memory["weight"] = torch.ones(len(run.task.label))
        run.memory["score"] = torch.zeros(len(run.task.label))

    def losses(self, run: Run, batch: Batch) -> Sequence[Tensor]:
        outputs = run.training_outputs(batch)
        weight = run.memory["weight"][batch.rows].to(batch.view.device)
        own = functional.cross_entropy(outputs.logits, batch.label, reduction="none")
        loss = (weight * own).sum() / weight.sum().clamp_min(1e-12)
        if run.epoch < max(1, round(self.begin_share * run.settings.epochs)):
            return [loss]
        term = contrastive(
            functional.normalize(outputs.features), batch.label, weight == 1, self.margin
        )
        return [loss + self.weight * term]

    def after_epoch(self, run: Run) -> None:
        if not _due(run, self.begin_share, self.every):
            return
        features, label = functional.normalize(run.outputs().features).cpu(), run.task.label
        for code in torch.unique(label):
            rows = torch.nonzero(label == code)[:, 0]
            if len(rows) <= 2:
                continue
            score = run.memory["score"]
            score[rows] += local_outlier_factor(features[rows], self.neighbours)
            doubt = outlier_probability(score[rows])
            run.memory["weight"][rows] = torch.where(doubt > 0.5, 1 - doubt, 1.0)


def local_outlier_factor(features: Tensor, k: int) -> Tensor:
    """Return how much thinner the rows lie around each row than around its neighbours."""
    fitted = LocalOutlierFactor(n_neighbors=min(k, len(features) - 1)).fit(features.numpy())
    return torch.from_numpy(-fitted.negative_outlier_factor_).to(features.dtype)


def outlier_probability(score: Tensor) -> Tensor:
    """Return 0 for scores up to the mean, and near 1 for those far above it."""
    scaled = (score - score.mean()) / score.std(correction=0).clamp_min(1e-12)
    return torch.erf(scaled / 2**0.5).clamp_min(0)


def contrastive(features: Tensor, label: Tensor, clean: Tensor, margin: float) -> Tensor:
    """Return the mean over pairs of one class: clean ones attract, clean and doubtful repel."""
    same = (label[:, None] == label[None]).triu(1)
    first, second = torch.nonzero(same & (clean[:, None] | clean[None]), as_tuple=True)
    if not len(first):
        return features.sum() * 0
    distance = (features[first] - features[second]).square().sum(dim=1)
    both = clean[first] & clean[second]
    apart = (margin - distance.clamp_min(1e-12).sqrt()).clamp_min(0).square()
    return torch.where(both, distance, apart).mean()


@dataclass(frozen=True)
class IterativeCV(Method):
    """Find rows whose label a network of the other half predicts; then Co-teaching on them.

    The share that Co-teaching leaves out is estimated from how often the halves agree. The public
    code (github.com/chenpf1025/noisy_label_understanding_utilizing) has four rounds, drops rows of
    the largest losses, and lets the share rise in 10 of 200 epochs. Two rounds and one epoch are
    chosen here: a round is a whole run, and runs are short.
    """

    rounds: int = 2
    """Divisions into halves; every one is a stage, and Co-teaching another."""
    n_learners = 2

    @property
    def n_stages(self) -> int:  # type: ignore[override]
        """One stage for each round, and the last one."""
        return self.rounds + 1

    def begin(self, run: Run) -> None:
        run.memory["selected"] = torch.zeros(len(run.task.label), dtype=torch.bool)
        run.memory["wrong"] = torch.zeros(())
        self._divide(run)

    def _divide(self, run: Run) -> None:
        generator = generator_for(run.settings.seed, "split", run.stage)
        order = torch.randperm(len(run.task.label), generator=generator)
        run.memory["half"] = order % 2

    def losses(self, run: Run, batch: Batch) -> Sequence[Tensor]:
        own = run.batch_losses(batch)
        if run.stage == self.rounds:
            share = keep_share(run.epoch_of_stage, float(run.memory["wrong"]), 1.0)
            return exchanged(own, int(share * len(batch.rows)))
        half, sure = run.memory["half"][batch.rows], run.memory["selected"][batch.rows]
        return [mean_over(loss, ((half == k) | sure).to(loss.device)) for k, loss in enumerate(own)]

    def after_epoch(self, run: Run) -> None:
        if not run.stage_is_done or run.stage > self.rounds:
            return
        predicted = torch.stack([run.outputs(k).logits.argmax(dim=1).cpu() for k in range(2)])
        by_other = predicted.gather(0, (1 - run.memory["half"])[None])[0]
        agree = by_other == run.task.label
        run.memory["selected"] |= agree
        if run.stage == 1:
            # Of the first round: later networks have learned the rows that are selected already.
            share = float(agree.double().mean())
            run.memory["wrong"] = torch.tensor(wrong_among_agreeing(share, run.task.n_classes))
        if run.stage == self.rounds:
            run.memory[KEPT] = run.memory["selected"]
        self._divide(run)


def wrong_among_agreeing(share: float, n_classes: int) -> float:
    """Return the share of wrong labels among those that a network of the other half predicts.

    `share` of all labels are predicted. The authors' model: the network has learned the noise of
    its own half, symmetric with rate e, so that ``share = (1 - e)^2 + e^2 / (n_classes - 1)``.
    """
    others = n_classes - 1
    # The smaller root; below the least possible share, the rate at that least.
    inner = max(1 - (1 + 1 / others) * (1 - share), 0.0)
    rate = (1 - math.sqrt(inner)) / (1 + 1 / others)
    wrong = rate**2 / others
    return wrong / ((1 - rate) ** 2 + wrong)


@dataclass(frozen=True)
class Graded(Method):
    """Cross-entropy where prototypes support the label, GCE where it is their second choice.

    Other rows learn the prototypes' own probabilities. Prototypes are class means of frozen
    features: of the embeddings, or of the untrained or given network for images. No description of
    FM-SRM was at hand but its name: the rule and the temperature, usual for cosines, are ours.
    """

    temperature: float = 0.1

    def begin(self, run: Run) -> None:
        features = run.outputs().features
        if len(run.task.inputs.shape) == 1:
            everything = torch.arange(len(run.task.label))
            features = run.pipeline.plain_view(run.task.inputs.take(everything))
        soft = prototype_probabilities(features.cpu(), run.task.label, self.temperature)
        place = (soft > soft.gather(1, run.task.label[:, None])).sum(dim=1)
        run.memory["soft"], run.memory["grade"] = soft, place.clamp_max(2)

    def losses(self, run: Run, batch: Batch) -> Sequence[Tensor]:
        (logits,) = run.logits(batch)
        grade = run.memory["grade"][batch.rows].to(logits.device)
        soft = run.memory["soft"][batch.rows].to(logits.device)
        given, learned = (cross_entropies([logits], label)[0] for label in (batch.label, soft))
        by_grade = torch.stack([given, generalised(logits, batch.label), learned])
        return [by_grade.gather(0, grade[None]).mean()]


def prototype_probabilities(features: Tensor, label: Tensor, temperature: float) -> Tensor:
    """Return probabilities of all classes by the cosine to the mean of each class's rows."""
    n_classes = int(label.max()) + 1
    rows = functional.normalize(features - features.mean(dim=0))
    sums = torch.zeros(n_classes, rows.shape[1]).index_add_(0, label, rows)
    return (rows @ functional.normalize(sums).T / temperature).softmax(dim=1)


@dataclass(frozen=True)
class RoG(Method):
    """Plain training; the last layer is then replaced by the discriminant of robust Gaussians.

    Features of right labels lie close together in each class, so a robust mean and a common robust
    covariance (minimum covariance determinant) give a linear classifier that wrong labels disturb
    little. The public code (github.com/pokaxpoka/RoGNoisyLabel) starts from a random 70 % of a
    class, concentrates once on 70 %, and averages over several layers. Chosen here: half of the
    class, which bears more noise, two rounds, so that the start does not matter, and one layer.
    """

    steps: int = 2
    """Rounds of concentration on the half of a class that lies closest together."""

    def finish(self, run: Run, network: Network) -> None:
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
