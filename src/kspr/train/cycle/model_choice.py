"""Which network a run ends with."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from kspr.train.cycle.guard import is_behind
from kspr.train.cycle.metrics import Standing

__all__ = ["Best", "Handover", "hand_over"]


@dataclass
class Best:
    """The network that predicted the most held-out labels, at whichever epoch."""

    name: str = ""
    """``cycle`` or ``reference``, then ``weights`` or ``average``; empty before the first."""
    epoch: int = 0
    right: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.bool))
    """Mask over the held-out samples: the given label is predicted."""
    test_accuracy: float | None = None
    weights: dict[str, Any] = field(default_factory=dict)

    def consider(
        self, epoch: int, found: dict[str, Standing], networks: dict[str, nn.Module]
    ) -> None:
        """Take the best of `found` in, if it is better than what is here."""
        name = max(found, key=lambda name: found[name].held_out)
        if self.name and found[name].held_out <= float(self.right.double().mean()):
            return
        self.name, self.epoch, self.right = name, epoch, found[name].right
        self.test_accuracy = found[name].test_accuracy
        self.weights = {key: value.clone() for key, value in _state(networks[name]).items()}

    def tensors(self) -> dict[str, Any]:
        """Return it as a checkpoint holds it."""
        return dict(vars(self))


@dataclass(frozen=True)
class Handover:
    """The weights that a run hands over, and why these."""

    weights: dict[str, Any]
    name: str
    """``cycle`` or ``reference``, then ``weights`` or ``average``."""
    epoch: int
    held_out: dict[str, float]
    """Share of held-out given labels that each candidate predicts; empty without the guard."""
    test_accuracy: float | None


def hand_over(
    epoch: int, found: dict[str, Standing], networks: dict[str, nn.Module], best: Best | None
) -> Handover:
    """Return the cycle's network, unless another is clearly better on the held-out labels.

    For the reference, clearly means one standard error; for the best of any epoch, which of
    many looks good by luck alone, two. Without a guard there is nothing to compare, and the
    average is taken.
    """
    if best is None:
        return _as_they_are("cycle average", epoch, found, networks, {})
    shares = {name: standing.held_out for name, standing in found.items()}
    own, other = (max(_KINDS[line], key=lambda name: shares[name]) for line in _KINDS)
    if is_behind(found[own].right, found[other].right, 1.0):
        own = other
    shares[f"{best.name} of epoch {best.epoch}"] = float(best.right.double().mean())
    if is_behind(found[own].right, best.right, 2.0):
        return Handover(best.weights, best.name, best.epoch, shares, best.test_accuracy)
    return _as_they_are(own, epoch, found, networks, shares)


_KINDS = {
    "cycle": ("cycle average", "cycle weights"),
    "reference": ("reference average", "reference weights"),
}


def _as_they_are(
    name: str,
    epoch: int,
    found: dict[str, Standing],
    networks: dict[str, nn.Module],
    shares: dict[str, float],
) -> Handover:
    return Handover(_state(networks[name]), name, epoch, shares, found[name].test_accuracy)


def _state(network: nn.Module) -> dict[str, Any]:
    """Return the weights of a network, out of the average that may wrap it."""
    if isinstance(network, torch.optim.swa_utils.AveragedModel):
        return network.module.state_dict()
    return network.state_dict()
