"""The guard: rules that keep the cycle from ending below plain training.

Five rules, explained with measurements in ``docs/training.md``:

1. A selection is used only if it is healthy (`examine`). A class that keeps hardly any label gets
   its best-ranked samples back; if that holds for most classes, all given labels are used.
2. A reference network is trained beside the cycle on all given labels. Both are compared on
   held-out samples, by their given labels and the estimated noise (`credit_table`): where classes
   overlap, the network that predicts most given labels is not the one that is right most often.
3. When the cycle is clearly behind the reference (`is_behind`), it continues from the reference's
   weights.
4. The run ends with the better network (`choose_model`).
5. If the first selection keeps nearly every label (`keeps_nearly_all`; with referees also: finds
   hardly any to be wrong, `finds_little_noise`), both networks would learn
   the same. The held-out samples are then used for training, and the reference is dropped.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from kspr.core.labels import codes_in
from kspr.selectors import Selection
from kspr.train.learner import Learner, Pools, check_tensor, train_epoch
from kspr.train.task import Performance, Setup, better

REFERENCE = 1
"""Number of the reference network; the cycle's is 0. Their random numbers differ by it."""
STARVED = 0.25
"""A class is starved if it keeps less than this share of what the median class keeps..."""
LEAST = 5
"""...or fewer samples than this, or than a quarter of a class that is small itself."""
MARGIN = 2.0
"""Standard errors by which the cycle may be behind before it continues from the reference."""
NEARLY_ALL = 0.99
"""Share of labels from which on a selection hardly differs from plain training."""

LITTLE_NOISE = 0.02
"""Estimated share of wrong labels up to which soft labels have nothing to correct. Of right labels
of CIFAR-10, 0.005 are estimated to be wrong."""
MOST_CLASSES = 1024
"""Classes up to which the noise is estimated as a matrix."""
_LEAST_KEPT = 0.05
"""Differences between classes of which noise leaves less than this share are not restored: they
would be multiplied by more than 20, and with them the error of the estimate."""


class Guard:
    """The reference network of a run and the best network so far; a bare run has neither.

    Parameters
    ----------
    setup
        What is learned.
    reference
        A network with the weights that the cycle's starts from; None for the bare procedure.
    """

    def __init__(self, setup: Setup, reference: Learner | None) -> None:
        self._settings, self._world = setup.settings, setup.world
        self._n_held_out = int(setup.task.held_out.sum())
        self.reference = reference
        self.best = None if reference is None else BestSoFar()

    def release(self) -> None:
        """End the comparison: there is no reference any more."""
        self.reference = self.best = None

    def health(self, selection: Selection, otherwise: str) -> "Health":
        """Return the labels of `selection` that may be used; arguments are as in `examine`."""
        if self._settings.guard:
            return examine(selection, otherwise)
        # As in the paper. Batch normalisation needs two samples on each rank.
        if selection.clean_mask.sum() < 2 * self._world.size:
            return Health(None, (f"The selection is empty; {otherwise}.",))
        return Health(selection.clean_mask)

    def train(self, setup: Setup, learner: Learner, epoch: int) -> float | None:
        """Train the reference for an epoch; during the warm-up it is a copy of `learner`."""
        if self.reference is None:
            return None
        # Training it separately would give the same weights at twice the cost.
        if epoch < self._settings.warmup_epochs:
            self.reference.load(learner.state())
            return None
        rows = torch.nonzero(~setup.task.held_out)[:, 0]
        # An empty pool of rejected samples: the reference is plain training, without mixing.
        return train_epoch(self.reference, setup, Pools(rows, rows[:0]), (REFERENCE, epoch))

    def start_over(self, learner: Learner, performances: dict[str, Performance]) -> tuple[str, ...]:
        """Copy the reference's weights to `learner` if that is clearly behind; say so if it is."""
        if self.reference is None or not is_behind(
            better(performances, "cycle").worth, better(performances, "reference").worth
        ):
            return ()
        # Optimiser and average too: it continues from the whole state of the reference.
        learner.load(self.reference.state())
        return (
            "The cycle was behind the network that is trained on all given labels, and continues "
            "from the weights of that network.",
        )

    def state(self) -> dict[str, Any]:
        """Return the networks, for a checkpoint."""
        return {
            "reference": None if self.reference is None else self.reference.state(),
            "best": None if self.best is None else dict(vars(self.best)),
        }

    def load(self, stored: dict[str, Any]) -> None:
        """Restore `state`, which has no networks where the guard had ended."""
        if stored["reference"] is None:
            self.release()
        elif self.reference is not None:
            self.reference.load(stored["reference"])
            self.best = BestSoFar(**stored["best"])
            needed = self.reference.network.state_dict()
            if self.best.weights.keys() != needed.keys() or type(self.best.epoch) is not int:
                raise ValueError("the best network is another one")
            for name, value in needed.items():
                check_tensor(self.best.weights[name], value.shape, value.dtype)
            check_tensor(self.best.worth, (self._n_held_out,), torch.float32)


@dataclass(frozen=True, eq=False)
class Health:
    """The labels of a selection that may be used, and the reasons."""

    keep: np.ndarray | None
    """Mask of the samples whose labels are used; None for all: the selection is not healthy."""
    reasons: tuple[str, ...] = ()
    """Sentences that describe the faults; none for a selection that is used unchanged."""


def examine(selection: Selection, otherwise: str = "all given labels are used") -> Health:
    """Return the labels of `selection` that may be used; `otherwise` ends the sentence for none.

    An empty selection, and one that starves most classes, is not used. Otherwise each starved class
    gets its best-ranked samples back, the same share as the median class keeps.
    """
    codes = codes_in(selection.classes, selection.label, "label")
    n_classes = len(selection.classes)
    size = np.bincount(codes, minlength=n_classes)
    kept = np.bincount(codes[selection.clean_mask], minlength=n_classes)
    share = kept / size
    # The median, not the mean: a few starved classes must not lower their own standard.
    usual = float(np.median(share))
    starved = (share < STARVED * usual) | (kept < np.minimum(LEAST, size // 4))
    if starved.sum() * 2 > n_classes or usual == 0:
        reason = (
            f"{int(starved.sum())} of {n_classes} classes kept hardly any labels "
            f"({kept.sum() / size.sum():.1%} of all); {otherwise}."
        )
        return Health(None, (reason,))
    if not starved.any():
        return Health(selection.clean_mask)
    # The selection itself is not changed: users see what it really kept.
    keep = selection.clean_mask.copy()
    for code in np.flatnonzero(starved).tolist():
        # A small class gets LEAST samples even if the usual share would be fewer.
        wanted = max(int(usual * size[code]), min(LEAST, int(size[code])))
        rows = np.flatnonzero(codes == code)
        keep[rows[np.argsort(selection.selection_time[rows], kind="stable")[:wanted]]] = True
    names = ", ".join(map(str, selection.classes[starved][:5].tolist()))
    reason = (
        f"{int(starved.sum())} classes kept hardly any labels ({names}); the best-ranked of them "
        "are used instead."
    )
    return Health(keep, (reason,))


def credit_table(transition: Tensor) -> Tensor:
    """Return what a prediction (column) is worth for a sample with a given label (row).

    `transition` is the chance of each label (column) given the true class (row). If it is right,
    the mean of these values estimates the accuracy on the true labels without bias.

    >>> table = credit_table(torch.tensor([[0.9, 0.1], [0.3, 0.7]]))
    >>> [[round(value, 3) for value in row] for row in table.tolist()]
    [[1.167, -0.167], [-0.5, 1.5]]
    """
    # A pseudo-inverse: noise may leave nothing of the difference between two classes.
    return torch.from_numpy(np.linalg.pinv(transition.double().numpy(), rcond=_LEAST_KEPT)).float()


def estimated_transition(selection: Selection | None, classes: np.ndarray) -> Tensor:
    """Return the transition matrix of all `classes` that `selection` estimates.

    Classes of which it says nothing keep their labels, and without an estimate all do.
    """
    matrix = np.eye(len(classes))
    noise = None if selection is None else selection.noise
    if noise is not None and noise.transition.size:
        known = codes_in(classes, noise.classes, "classes")
        matrix[np.ix_(known, known)] = noise.transition
    return torch.from_numpy(matrix).float()


def is_behind(own: Tensor, other: Tensor, margin: float = MARGIN) -> bool:
    """Return whether `own` is worth less than `other`, by more than `margin` standard errors.

    Both hold the worth of predictions for the same samples; the standard error is that of the
    paired difference.
    """
    difference = other.double() - own.double()
    # One sample has no standard deviation.
    if len(difference) < 2:
        return False
    # Paired: what is hard for both networks does not blur the comparison.
    error = float(difference.std()) / len(difference) ** 0.5
    return float(difference.mean()) > margin * error and bool(torch.any(difference != 0))


def keeps_nearly_all(keep: Tensor | None) -> bool:
    """Return whether a selection keeps 99 % of the labels; False for None, an unused one."""
    return keep is not None and float(keep.double().mean()) >= NEARLY_ALL


def finds_little_noise(selection: Selection) -> bool:
    """Return whether `selection` estimates that few labels are wrong; True without an estimate."""
    return selection.noise is None or selection.noise.rate <= LITTLE_NOISE


@dataclass
class BestSoFar:
    """The network with the best predictions for held-out samples in any epoch so far."""

    name: str = ""
    """``cycle`` or ``reference``, then ``weights`` or ``average``; empty before the first epoch."""
    epoch: int = 0
    """Epoch at whose end these weights were saved."""
    worth: Tensor = field(default_factory=lambda: torch.zeros(0))
    """What each of its predictions for held-out samples is worth."""
    held_out: float = 0.0
    """Share of the held-out samples whose given label it predicts."""
    test_accuracy: float | None = None
    weights: dict[str, Any] = field(default_factory=dict)

    def consider(
        self, epoch: int, performances: dict[str, Performance], networks: dict[str, nn.Module]
    ) -> None:
        """Replace this network by the best of `performances` if that predicts better."""
        name = max(performances, key=lambda name: performances[name].mean_worth)
        # A tie keeps the earlier network: networks often are best before they memorise.
        if self.name and performances[name].mean_worth <= float(self.worth.double().mean()):
            return
        found = performances[name]
        self.name, self.epoch, self.worth = name, epoch, found.worth
        self.held_out, self.test_accuracy = found.held_out, found.test_accuracy
        # Copied: training goes on in the same tensors.
        self.weights = {key: value.clone() for key, value in _weights(networks[name]).items()}


@dataclass(frozen=True)
class ModelChoice:
    """The weights that a run ends with, and the comparison that chose them."""

    weights: dict[str, Any]
    name: str
    """``cycle`` or ``reference``, then ``weights`` or ``average``."""
    epoch: int
    """Epoch at whose end these weights were saved."""
    held_out: dict[str, float]
    """Share of held-out given labels that each candidate predicts; empty without the guard."""
    test_accuracy: float | None
    """Accuracy of the chosen network on the test set; None without one."""


def choose_model(
    epoch: int,
    performances: dict[str, Performance],
    networks: dict[str, nn.Module],
    best: BestSoFar | None,
) -> ModelChoice:
    """Return the cycle's network, unless another one clearly predicts better.

    Predictions for held-out samples are compared by their worth (`credit_table`). The reference
    must be ahead by one standard error, and the best network of any epoch by two to three. Without
    the guard (`best` is None) nothing is compared, and the cycle's average is taken.
    """
    own, shares = "cycle average", dict[str, float]()
    if best is not None:
        shares = {name: performance.held_out for name, performance in performances.items()}
        # max takes the first of equals: the average.
        own, other = (
            max(
                (f"{learner} average", f"{learner} weights"),
                key=lambda name: performances[name].mean_worth,
            )
            for learner in ("cycle", "reference")
        )
        if is_behind(performances[own].worth, performances[other].worth, 1.0):
            own = other
        shares[f"{best.name} of epoch {best.epoch}"] = best.held_out
        # The best of n equal networks looks better by about so many standard errors.
        luck = max(2.0, math.sqrt(2 * math.log(epoch * len(performances))))
        if is_behind(performances[own].worth, best.worth, luck):
            return ModelChoice(best.weights, best.name, best.epoch, shares, best.test_accuracy)
    accuracy = performances[own].test_accuracy
    return ModelChoice(_weights(networks[own]), own, epoch, shares, accuracy)


def _weights(network: nn.Module) -> dict[str, Any]:
    """Return the weights of a network; an average keeps them one level deeper."""
    if isinstance(network, torch.optim.swa_utils.AveragedModel):
        return network.module.state_dict()
    return network.state_dict()
