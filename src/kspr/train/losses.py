"""The two losses of the paper, and the labels that a model gives to rejected samples."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from kspr.errors import InputError
from kspr.train.backbones import evaluating

__all__ = ["pseudo_labels", "soft_loss", "supervised_loss"]


def supervised_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the mean cross-entropy of clean samples (Eq. loss-supervised).

    The indicator in that equation is the caller's choice of rows. Without a row it is 0, with a
    gradient of 0: a batch in which nothing is clean teaches nothing.
    """
    if not len(labels):
        return logits.sum()
    return functional.cross_entropy(logits, labels)


def soft_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy with soft targets (Eq. loss-cutmix); 0 without a row."""
    if targets.shape != logits.shape:
        raise InputError(
            f"targets must have a probability for each logit: logits have shape "
            f"{tuple(logits.shape)}, targets {tuple(targets.shape)}."
        )
    if not len(targets):
        return logits.sum()
    return functional.cross_entropy(logits, targets)


def pseudo_labels(
    network: nn.Module, views: Sequence[Tensor], *, temperature: float = 1.0
) -> Tensor:
    """Return (n, classes) probabilities for samples whose labels are not believed.

    The mean over `views` (one batch each, of the same samples) of what `network` says, raised to
    ``1 / temperature`` and made to sum to 1 again. One view at temperature 1 is the softmax. The
    network looks in evaluation mode, gets its mode back, and no gradient passes.

    The paper says that rejected samples serve "as unlabeled data" and mixes their label
    ``y_noisy`` in, but not where that comes from: from the model or the EMA model (pass either),
    hard or soft, sharpened or not (MixMatch: two views, temperature 0.5), and in which mode.
    """
    if not views:
        raise InputError("views must hold at least one batch, got none.")
    if not temperature > 0:
        raise InputError(
            f"temperature must be positive, got {temperature}. 1 leaves probabilities as they are."
        )
    with evaluating(network):
        logits = torch.stack([network(view).logits.float() for view in views])
        # Logarithms throughout: a class at 1e-30 must not turn into 0 ** (1 / temperature).
        mean = logits.log_softmax(2).logsumexp(0)
        return (mean / temperature).softmax(1)
