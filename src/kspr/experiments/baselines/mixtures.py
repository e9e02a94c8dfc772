"""Methods that tell right from wrong labels by a mixture of two distributions of the losses.

- `MCorrection`: a mixture of two Beta distributions sets how far each target is the prediction
  (Arazo et al. 2019; its form with mixup and the predicted class).
- `DivideMix`: a Gaussian mixture divides the rows for the other network, which takes the labels of
  the doubtful ones from both (Li, Socher and Hoi 2020).

Numbers of epochs in these papers are kept as shares of the run. Constants are those of the public
code (github.com/PaulAlbert31/LabelNoiseCorrection; github.com/LiJunnan1992/DivideMix). That of
`DivideMix` adds a penalty in the warm-up if it is told that the noise is asymmetric; not so here.
"""

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
from kspr.experiments.baselines.soft_targets import prior_term
from kspr.models.network import evaluating
from kspr.train.learner import pseudo_labels, soft_loss
from kspr.train.randomness import beta

__all__ = ["DivideMix", "MCorrection", "clean_by_gaussians", "wrong_by_betas"]


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
    """Mixup, with targets that are the prediction as far as the mixture doubts the label."""

    begin_share: float = 105 / 300
    alpha: float = 32.0

    def begin(self, run: Run) -> None:
        """Begin without doubt."""
        run.memory["wrong"] = torch.zeros(len(run.task.label))

    def losses(self, run: Run, batch: Batch) -> Sequence[Tensor]:
        """Return the loss of mixed rows, and the term that keeps all classes in use."""
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
        return [soft_loss(logits, target) + prior_term(logits.softmax(dim=1))]

    def after_epoch(self, run: Run) -> None:
        """Fit the mixture to the losses, after the first part of the run."""
        if run.epoch >= self.begin_share * run.settings.epochs:
            found = wrong_by_betas(run.row_losses().cpu().numpy())
            run.memory["wrong"] = torch.from_numpy(found).float()


@dataclass(frozen=True)
class DivideMix(Method):
    """Two networks; each learns from rows and targets that the other's losses divide."""

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
        """Begin with trust in all labels."""
        run.memory["clean"] = torch.ones(2, len(run.task.label))

    def losses(self, run: Run, batch: Batch) -> Sequence[Tensor]:
        """Return plain losses first, and those of divided and mixed rows after."""
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
        supervised = soft_loss(logits[has_label], target[has_label])
        return supervised + self._weight(run) * rest + prior_term(p)

    def _weight(self, run: Run) -> float:
        since = run.epoch - self.begin_share * run.settings.epochs
        return self.unlabelled * min(since / (self.ramp * run.settings.epochs), 1.0)

    def after_epoch(self, run: Run) -> None:
        """Divide the rows by the losses of each network."""
        found = [
            clean_by_gaussians(run.row_losses(k).cpu().numpy(), run.settings.seed) for k in range(2)
        ]
        run.memory["clean"] = torch.from_numpy(np.stack(found)).float()
