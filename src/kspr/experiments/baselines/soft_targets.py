"""Methods that replace the given labels little by little, row by row.

`methods.toml` lists them. Each class says where its constants come from; numbers of epochs are kept
as shares of the run.
"""

import copy
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import beta as beta_distribution
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from torch import Tensor
from torch.nn import functional

from kspr.experiments.baselines.method import Batch, Method, Run
from kspr.models.network import evaluating
from kspr.train.learner import mean_loss, pseudo_labels
from kspr.train.world import beta, generator_for


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

    `few` and `many` are the weight and the share of the average that a step keeps: those of the
    public code for CIFAR-10 and CIFAR-100 (github.com/shengliu66/ELR).
    """

    few: tuple[float, float] = (3.0, 0.7)
    many: tuple[float, float] = (7.0, 0.9)

    def begin(self, run: Run) -> None:
        run.memory["average"] = torch.zeros_like(run.one_hot)

    def losses(self, run: Run, batch: Batch) -> Sequence[Tensor]:
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
    """Learn network and labels in turn; then learn again, from the learned labels.

    Epochs are those of the public code (github.com/DaikiTanaka-UT/JointOptimization). Its authors
    choose the two weights for each noise; one pair of theirs is taken here for all.
    """

    begin_share: float = 0.35
    """Share of the epochs on given labels: 70 of 200."""
    window: float = 0.05
    """Predictions that a label is the mean of, as a share of the epochs: 10 of 200."""
    prior: float = 1.2
    confidence: float = 0.8
    n_stages = 2

    def begin(self, run: Run) -> None:
        run.memory["target"] = run.one_hot
        run.memory["recent"] = run.one_hot[None][:0]

    def losses(self, run: Run, batch: Batch) -> Sequence[Tensor]:
        (logits,) = run.logits(batch)
        loss = mean_loss(logits, run.memory["target"][batch.rows.to(logits.device)])
        if run.stage == 0:
            p = logits.softmax(dim=1)
            loss = loss + self.prior * prior_term(p) + self.confidence * entropy(p)
        return [loss]

    def after_epoch(self, run: Run) -> None:
        if run.epoch > run.settings.epochs:
            return
        n = max(1, round(self.window * run.settings.epochs))
        run.memory["recent"] = torch.cat([run.memory["recent"], run.probabilities()[None]])[-n:]
        if run.epoch >= self.begin_share * run.settings.epochs:
            run.memory["target"] = run.memory["recent"].mean(dim=0)


@dataclass(frozen=True)
class PENCIL(Method):
    """Train plainly, then network and labels together, then on the learned labels.

    Epochs are those of the public code (github.com/yikun2019/PENCIL). For CIFAR-10 it weighs
    compatibility 0.4 and entropy 0.1, and moves labels at a rate of 600 in each of 130 epochs. Here
    it is 0.1, 0.4 and 10,000, because a run of ten epochs moves labels four times.
    """

    begin_share: float = 70 / 320
    end_share: float = 200 / 320
    scale: float = 10.0
    """Logit of the given label at first."""
    rate: float = 10_000.0
    """Learning rate of the labels, for the mean loss of batches of 128."""
    compatible: float = 0.1
    confidence: float = 0.4

    def begin(self, run: Run) -> None:
        run.memory["label_logits"] = self.scale * run.one_hot

    def losses(self, run: Run, batch: Batch) -> Sequence[Tensor]:
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
        # Of the two directions of the divergence, the one that the authors prefer.
        loss = (log_p.exp() * (log_p - log_d)).sum(dim=1).mean() / logits.shape[1]
        if not moving:
            return loss
        near = functional.nll_loss(log_d, label)
        return (
            loss + self.compatible * near + self.confidence * entropy(log_p.exp()) / logits.shape[1]
        )


@dataclass(frozen=True)
class D2L(Method):
    """Watch the local dimension of the features; once it rises, trust labels less and less.

    Constants are those of the public code (github.com/xingjunm/dimensionality-driven-learning).
    """

    window: float = 5 / 120
    """Epochs that a rise is measured against, as a share of the run; at least two."""
    neighbours: int = 20
    batches: int = 10

    def begin(self, run: Run) -> None:
        run.memory["trust"] = torch.ones(())
        run.memory["dimensions"] = torch.zeros(0)

    def losses(self, run: Run, batch: Batch) -> Sequence[Tensor]:
        (logits,) = run.logits(batch)
        trust = float(run.memory["trust"])
        given = functional.cross_entropy(logits, batch.label)
        predicted = functional.cross_entropy(logits, logits.argmax(dim=1))
        return [trust * given + (1 - trust) * predicted]

    def after_epoch(self, run: Run) -> None:
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


def clean_by_gaussians(losses: np.ndarray, seed: int) -> np.ndarray:
    """Return the probability that each loss belongs to the lower of two Gaussians."""
    scaled = _unit(losses)[:, None]
    # The authors' settings: a wide tolerance is enough to divide, and quick.
    mixture = GaussianMixture(2, max_iter=10, tol=1e-2, reg_covar=5e-4, random_state=seed)
    with warnings.catch_warnings():
        # Ten rounds need not converge, and losses may all be equal.
        warnings.simplefilter("ignore", ConvergenceWarning)
        lower = mixture.fit(scaled).means_[:, 0].argmin()
    return np.asarray(mixture.predict_proba(scaled)[:, lower])


def wrong_by_betas(losses: np.ndarray, rounds: int = 10) -> np.ndarray:
    """Return the probability that each loss belongs to the upper of two Beta distributions.

    The losses are scaled to (0, 1), without the outer percent on either side. Each round computes
    the memberships, and then the parameters from weighted moments.
    """
    low, high = np.percentile(losses, [1, 99])
    x = np.clip((losses - low) / max(high - low, 1e-12), 1e-4, 1 - 1e-4)
    # Begins with the authors' halves: small losses on one side, large ones on the other.
    upper = (x >= 0.5).astype(float)
    for _ in range(rounds):
        densities = [_beta_density(x, weight) for weight in (1 - upper, upper)]
        upper = densities[1] / np.maximum(densities[0] + densities[1], 1e-300)
    return np.asarray(upper)


def _beta_density(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the weighted density of the Beta distribution with the moments of `x`."""
    total = max(float(weight.sum()), 1e-12)
    # A part without rows has no mean: the bounds keep its density a number.
    mean = min(max(float((weight * x).sum()) / total, 1e-4), 1 - 1e-4)
    variance = max(float((weight * (x - mean) ** 2).sum()) / total, 1e-6)
    size = max(mean * (1 - mean) / variance - 1, 1e-2)
    return np.asarray(total / len(x) * beta_distribution.pdf(x, mean * size, (1 - mean) * size))


def _unit(losses: np.ndarray) -> np.ndarray:
    low, high = losses.min(), losses.max()
    return np.asarray((losses - low) / max(high - low, 1e-12), dtype=np.float64)


def _mixed(
    view: Tensor, target: Tensor, alpha: float, draws: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return mixtures of a batch with itself in another order, one weight for all."""
    order = torch.randperm(len(view), generator=draws).to(view.device)
    weight = beta(1, alpha, draws, view.device)
    # The row itself keeps the larger part: its target is weighed like a row of its own kind.
    weight = torch.maximum(weight, 1 - weight)
    return weight * view + (1 - weight) * view[order], weight * target + (1 - weight) * target[
        order
    ]


@dataclass(frozen=True)
class MCorrection(Method):
    """Mixup, with targets that are the prediction as far as the mixture doubts the label.

    Constants are those of the public code (github.com/PaulAlbert31/LabelNoiseCorrection).
    """

    begin_share: float = 105 / 300
    alpha: float = 32.0

    def begin(self, run: Run) -> None:
        run.memory["wrong"] = torch.zeros(len(run.task.label))

    def losses(self, run: Run, batch: Batch) -> Sequence[Tensor]:
        learner = run.learners[0]
        doubt = run.memory["wrong"][batch.rows].to(batch.view.device)[:, None]
        given = functional.one_hot(batch.label, run.task.n_classes).float()
        with evaluating(learner.network):
            predicted = learner.network(batch.view).logits.argmax(dim=1)
        own = functional.one_hot(predicted, run.task.n_classes).float()
        mixed, target = _mixed(
            batch.view, (1 - doubt) * given + doubt * own, self.alpha, batch.draws
        )
        logits = learner.logits(mixed)
        return [mean_loss(logits, target) + prior_term(logits.softmax(dim=1))]

    def after_epoch(self, run: Run) -> None:
        if run.epoch >= self.begin_share * run.settings.epochs:
            wrong = wrong_by_betas(run.row_losses().cpu().numpy())
            run.memory["wrong"] = torch.from_numpy(wrong).float()


@dataclass(frozen=True)
class DivideMix(Method):
    """Two networks; each learns from rows and targets that the other's losses divide.

    Constants are those of the public code (github.com/LiJunnan1992/DivideMix), whose weight of the
    unlabelled rows depends on the noise: 25 is taken here for all. Its penalty in the warm-up, for
    noise that it is told to be asymmetric, is left out: nobody tells.
    """

    begin_share: float = 10 / 300
    ramp: float = 16 / 300
    """Share of the epochs in which the weight of unlabelled rows rises."""
    unlabelled: float = 25.0
    """Weight of the unlabelled rows."""
    least: float = 0.5
    """Probability of a right label from which on a row counts as labelled."""
    temperature: float = 0.5
    alpha: float = 4.0
    n_learners = 2

    def begin(self, run: Run) -> None:
        run.memory["clean"] = torch.ones(2, len(run.task.label))

    def losses(self, run: Run, batch: Batch) -> Sequence[Tensor]:
        if run.epoch < max(1.0, self.begin_share * run.settings.epochs):
            return super().losses(run, batch)
        views = [batch.view]
        if batch.view.ndim == 4:
            # Vectors are not augmented: a second view would be the same again.
            views.append(run.pipeline.train_view(batch.taken, batch.draws))
        guesses = [pseudo_labels(learner.network, views) for learner in run.learners]
        return [self._loss(run, batch, k, guesses) for k in range(2)]

    def _loss(self, run: Run, batch: Batch, k: int, guesses: list[Tensor]) -> Tensor:
        # Divided by the other network, which makes other mistakes.
        clean = run.memory["clean"][1 - k][batch.rows].to(batch.view.device)[:, None]
        given = functional.one_hot(batch.label, run.task.n_classes).float()
        labelled = clean >= self.least
        refined = clean * given + (1 - clean) * guesses[k]
        target = torch.where(labelled, refined, (guesses[0] + guesses[1]) / 2)
        target = target ** (1 / self.temperature)
        target = target / target.sum(dim=1, keepdim=True)
        mixed, target = _mixed(batch.view, target, self.alpha, batch.draws)
        logits = run.learners[k].logits(mixed)
        p, has_label = logits.softmax(dim=1), labelled[:, 0]
        rest = (p - target)[~has_label].square().mean() if bool((~has_label).any()) else 0.0
        supervised = mean_loss(logits[has_label], target[has_label])
        return supervised + self._weight(run) * rest + prior_term(p)

    def _weight(self, run: Run) -> float:
        since = run.epoch - self.begin_share * run.settings.epochs
        return self.unlabelled * min(since / (self.ramp * run.settings.epochs), 1.0)

    def after_epoch(self, run: Run) -> None:
        clean = [
            clean_by_gaussians(run.row_losses(k).cpu().numpy(), run.settings.seed) for k in range(2)
        ]
        run.memory["clean"] = torch.from_numpy(np.stack(clean)).float()
