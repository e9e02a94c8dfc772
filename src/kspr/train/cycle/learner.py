"""A moving average of the weights, through torch's own `AveragedModel`."""

import copy
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from kspr.errors import InputError
from kspr.models.network import Network
from kspr.train.distributed import World
from kspr.train.schedule import cosine_rate, make_optimizer
from kspr.train.settings import TrainSettings

__all__ = ["Line", "averaged"]


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


class Line:
    """One network that learns; a guarded run has two."""

    def __init__(
        self, network: Network, settings: TrainSettings, total_steps: int, world: World
    ) -> None:
        self.network = network.to(world.device)
        if settings.channels_last:
            self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.average = averaged(self.network, _decay(settings.ema_decay, total_steps))
        self.steps = 0
        self._model = world.wrap(self.network)
        self._settings, self._total, self._world = settings, total_steps, world
        self._optimizer = make_optimizer(
            self.network, settings.learning_rate, settings.momentum, settings.weight_decay
        )

    @property
    def rate(self) -> float:
        """The learning rate of the next step."""
        return cosine_rate(self.steps, self._total, self._settings.learning_rate)

    def logits(self, batch: Tensor) -> Tensor:
        """Return the logits of a batch, to learn from."""
        if self._settings.channels_last and batch.ndim == 4:
            batch = batch.contiguous(memory_format=torch.channels_last)
        with self.precision():
            found: Tensor = self._model(batch).logits
        return found.float()

    def precision(self) -> AbstractContextManager[Any]:
        """Return the context in which the network computes."""
        half = self._settings.precision == "bfloat16"
        return torch.autocast(self._world.device.type, torch.bfloat16, enabled=half)

    def learn(self, loss: Tensor) -> None:
        """Take one step down `loss`, and let the average follow."""
        for group in self._optimizer.param_groups:
            group["lr"] = self.rate
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]  # torch's own gap
        self._optimizer.step()
        self.average.update_parameters(self.network)
        self.steps += 1

    def start_training(self) -> None:
        """Put the network in training mode."""
        self._model.train()

    def agree(self) -> None:
        """Take rank 0's batch statistics: each rank has seen other samples."""
        if self._world.size == 1:
            return
        for module in (self.network, self.average):
            for buffer in module.buffers():
                buffer.copy_(self._world.agree(buffer))

    def state(self) -> dict[str, Any]:
        """Return everything that the next step depends on."""
        return {
            "network": self.network.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "steps": self.steps,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Go on from `state`."""
        self.network.load_state_dict(state["network"])
        self.average.load_state_dict(state["average"])
        # torch keeps the tensors it is given: two lines would share their momentum.
        self._optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))
        self.steps = int(state["steps"])

    def candidates(self) -> dict[str, nn.Module]:
        """Return the networks that this line can hand over: its weights and their average."""
        return {"weights": self.network, "average": self.average}


def _decay(asked: float, total_steps: int) -> float:
    """Return a decay whose memory is at most a tenth of the run.

    An average that is longer than the training still holds the random weights it began with.
    """
    return min(asked, max(0.5, 1 - 10 / total_steps))
