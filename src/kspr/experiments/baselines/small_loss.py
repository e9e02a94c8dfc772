"""Methods that learn from rows with a small loss, or from rows that two networks dispute.

- `Decoupling`: both networks learn where they disagree (Malach and Shalev-Shwartz 2017).
- `MentorNet`: its self-paced form, a moving threshold on the loss (Jiang et al. 2018).
- `CoTeaching`: each network picks the rows with the smallest loss for the other (Han et al. 2018).
- `CoTeachingPlus`: the same among the rows that they dispute (Yu et al. 2019).

Numbers of epochs in these papers are kept as shares of the run. The public code of `MentorNet`
(github.com/google/mentornet) takes the percentile 0.7 or 0.75 and a decay of 0.5 for its moving
average; the decay here is slower.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from kspr.experiments.baselines.method import Batch, Method, Run

__all__ = [
    "CoTeaching",
    "CoTeachingPlus",
    "Decoupling",
    "MentorNet",
    "disputed",
    "exchanged",
    "keep_share",
    "mean_over",
    "smallest",
]


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


def _row_losses(logits: Sequence[Tensor], label: Tensor) -> list[Tensor]:
    return [functional.cross_entropy(own, label, reduction="none") for own in logits]


@dataclass(frozen=True)
class Decoupling(Method):
    """Two networks; a step uses the rows for which they predict different classes."""

    n_learners = 2

    def losses(self, run: Run, batch: Batch) -> Sequence[Tensor]:
        """Return the mean loss of each network over the disputed rows."""
        logits = run.logits(batch)
        return [mean_over(own, disputed(logits)) for own in _row_losses(logits, batch.label)]


@dataclass(frozen=True)
class MentorNet(Method):
    """Learn from rows whose loss is below a moving average of a percentile of the losses."""

    percentile: float = 0.75
    decay: float = 0.9
    burn_in: float = 0.2
    """Share of the epochs in which all rows are used."""

    def begin(self, run: Run) -> None:
        """Begin without a threshold."""
        run.memory["threshold"] = torch.full((), float("nan"))

    def losses(self, run: Run, batch: Batch) -> Sequence[Tensor]:
        """Return the mean loss of the rows below the threshold, which this batch moves."""
        (own,) = _row_losses(run.logits(batch), batch.label)
        now = own.detach().quantile(self.percentile).cpu()
        before = run.memory["threshold"]
        moved = now if before.isnan() else self.decay * before + (1 - self.decay) * now
        run.memory["threshold"] = moved
        if run.progress < self.burn_in:
            return [own.mean()]
        return [mean_over(own, own.detach() <= moved.to(own.device))]


@dataclass(frozen=True)
class CoTeaching(Method):
    """Two networks; each learns from the share of the batch that the other finds easiest."""

    ramp: float = 0.05
    """Share of the epochs after which the whole noise rate is left out: 10 of 200."""
    n_learners = 2
    needs_noise_rate = True

    def losses(self, run: Run, batch: Batch) -> Sequence[Tensor]:
        """Return the loss of each network over the rows that the other chose."""
        return exchanged(_row_losses(run.logits(batch), batch.label), self._kept(run, batch))

    def _kept(self, run: Run, batch: Batch) -> int:
        ramp = self.ramp * run.settings.epochs
        return int(keep_share(run.epoch_of_stage, run.noise_rate or 0.0, ramp) * len(batch.rows))


@dataclass(frozen=True)
class CoTeachingPlus(CoTeaching):
    """After a beginning as in Co-teaching, the same among disputed rows only."""

    begin_share: float = 0.1
    """Share of the epochs with all rows: 20 of 200."""

    def losses(self, run: Run, batch: Batch) -> Sequence[Tensor]:
        """Return the loss of each network over the rows that the other chose among disputed."""
        if run.progress < self.begin_share:
            return super().losses(run, batch)
        logits = run.logits(batch)
        rows = torch.nonzero(disputed(logits))[:, 0]
        n = int(self._kept(run, batch) / len(batch.rows) * len(rows))
        own = _row_losses([found[rows] for found in logits], batch.label[rows])
        # At least one, where there is any: as in the authors' code, a step without rows is idle.
        return exchanged(own, max(n, 1))
