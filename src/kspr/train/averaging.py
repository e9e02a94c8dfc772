"""A moving average of the weights, through torch's own `AveragedModel`."""

from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from kspr.errors import InputError
from kspr.train.backbones import Network

__all__ = ["averaged"]


def averaged(network: Network, decay: float) -> AveragedModel:
    """Return a copy of `network` that follows it: call ``update_parameters(network)`` per step.

    The first update copies; each later one keeps `decay` of the average. Batch statistics are
    averaged too, so the copy can be evaluated as it is: it is in evaluation mode, has no gradients,
    and its forward pass gives `Outputs`.
    """
    if not 0 <= decay < 1:
        raise InputError(
            f"decay must lie in [0, 1), got {decay}. It is what is kept per step: write 0.999."
        )
    follow = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call] # torch leaves it untyped
    average = AveragedModel(network, multi_avg_fn=follow, use_buffers=True)
    average.requires_grad_(False)
    average.eval()
    return average
