"""Choose the network that a training run ends with."""

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from kspr.train.cycle.guard import is_behind
from kspr.train.cycle.metrics import Performance

__all__ = ["BestSoFar", "ModelChoice", "choose_model"]


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
        self, epoch: int, found: dict[str, Performance], networks: dict[str, nn.Module]
    ) -> None:
        """Replace this network by the best of `found` if that predicts better."""
        name = max(found, key=lambda name: found[name].mean_worth)
        # A tie keeps the earlier network: networks often are best before they memorise.
        if self.name and found[name].mean_worth <= float(self.worth.double().mean()):
            return
        self.name, self.epoch, self.worth = name, epoch, found[name].worth
        self.held_out, self.test_accuracy = found[name].held_out, found[name].test_accuracy
        # Copied: training goes on in the same tensors.
        self.weights = {key: value.clone() for key, value in _state(networks[name]).items()}

    def tensors(self) -> dict[str, Any]:
        """Return the fields, for a checkpoint."""
        return dict(vars(self))


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
    found: dict[str, Performance],
    networks: dict[str, nn.Module],
    best: BestSoFar | None,
) -> ModelChoice:
    """Return the cycle's network, unless another one clearly predicts better.

    Predictions for held-out samples are compared by their worth (`credit_table`). The reference
    must be ahead by one standard error, and the best network of any epoch by two to three. Without
    the guard (`best` is None) nothing is compared, and the cycle's average is taken.
    """
    if best is None:
        return _now("cycle average", epoch, found, networks, {})
    shares = {name: performance.held_out for name, performance in found.items()}
    # max takes the first of equals, and the average comes first in _KINDS.
    own, other = (
        max(_KINDS[learner], key=lambda name: found[name].mean_worth) for learner in _KINDS
    )
    if is_behind(found[own].worth, found[other].worth, 1.0):
        own = other
    shares[f"{best.name} of epoch {best.epoch}"] = best.held_out
    if is_behind(found[own].worth, best.worth, _luck_of_the_best(epoch * len(found))):
        return ModelChoice(best.weights, best.name, best.epoch, shares, best.test_accuracy)
    return _now(own, epoch, found, networks, shares)


def _luck_of_the_best(n: int) -> float:
    """Return by how many standard errors the best of `n` equal networks looks better, at least 2.

    >>> round(_luck_of_the_best(60), 2)
    2.86
    """
    return max(2.0, math.sqrt(2 * math.log(n)))


_KINDS = {
    "cycle": ("cycle average", "cycle weights"),
    "reference": ("reference average", "reference weights"),
}


def _now(
    name: str,
    epoch: int,
    found: dict[str, Performance],
    networks: dict[str, nn.Module],
    shares: dict[str, float],
) -> ModelChoice:
    return ModelChoice(_state(networks[name]), name, epoch, shares, found[name].test_accuracy)


def _state(network: nn.Module) -> dict[str, Any]:
    """Return the weights of a network; an average keeps them one level deeper."""
    if isinstance(network, torch.optim.swa_utils.AveragedModel):
        return network.module.state_dict()
    return network.state_dict()
