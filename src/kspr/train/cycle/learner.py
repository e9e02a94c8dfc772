"""`Learner`: a network in training with its average, its optimiser and its learning rate."""

import copy
import math
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from kspr.errors import InputError
from kspr.models.network import Network
from kspr.train.distributed import World
from kspr.train.settings import TrainSettings

__all__ = ["Learner", "averaged", "cosine_rate", "make_optimizer"]


def cosine_rate(step: int, total: int, base: float, warmup: int = 0) -> float:
    """Return the learning rate of `step`, counted from 0, in a run of `total` steps.

    It rises in `warmup` equal steps to `base`, then falls along half a cosine to 0 at `total`. It
    depends on the step alone, so a resumed run needs no state of it.
    """
    if not 0 <= warmup <= total:
        raise InputError(f"warmup must lie between 0 and total={total}, got {warmup}.")
    if step < warmup:
        return base * (step + 1) / (warmup + 1)
    if step >= total:
        return 0.0
    return base * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (total - warmup)))


def make_optimizer(
    network: nn.Module, rate: float, momentum: float = 0.9, weight_decay: float = 5e-4
) -> torch.optim.SGD:
    """Return SGD with momentum on every parameter that is not frozen."""
    # Weight decay on all of them, as in the paper and in the ResNets it builds on; leaving out
    # biases and norms is a rule for very large batches.
    learning = [p for p in network.parameters() if p.requires_grad]
    if not learning:
        raise InputError("network has no parameter that learns; all of them are frozen.")
    return torch.optim.SGD(learning, lr=rate, momentum=momentum, weight_decay=weight_decay)


def averaged(network: Network, decay: float) -> AveragedModel:
    """Return a moving average of `network`; call ``update_parameters(network)`` after each step.

    The first update copies the weights; each later one keeps `decay` of the average. Batch
    statistics are averaged too. The average is in evaluation mode and has no gradients.
    """
    # A decay of 1 would keep the initial weights for ever.
    if not 0 <= decay < 1:
        raise InputError(
            f"decay must lie in [0, 1), got {decay}. It is what is kept per step: write 0.999."
        )
    follow = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call] # torch leaves it untyped
    average = AveragedModel(network, multi_avg_fn=follow, use_buffers=True)
    average.requires_grad_(False)
    average.eval()
    return average


class Learner:
    """A network in training, with its average and optimiser; a guarded run has two."""

    def __init__(
        self, network: Network, settings: TrainSettings, total_steps: int, world: World
    ) -> None:
        self.network = network.to(world.device)
        if settings.channels_last:
            self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.average = averaged(self.network, _decay(settings.ema_decay, total_steps))
        self.steps = 0
        # Wrapped for gradients only; the average and checkpoints use the plain network.
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
        """Return the logits of a batch, with gradients."""
        if self._settings.channels_last and batch.ndim == 4:
            batch = batch.contiguous(memory_format=torch.channels_last)
        with self.precision():
            found: Tensor = self._model(batch).logits
        # Losses in float32: bfloat16 has three digits.
        return found.float()

    def precision(self) -> AbstractContextManager[Any]:
        """Return the context that sets the precision in which the network computes."""
        half = self._settings.precision == "bfloat16"
        return torch.autocast(self._world.device.type, torch.bfloat16, enabled=half)

    def learn(self, loss: Tensor) -> None:
        """Take one step of the optimiser and update the average."""
        for group in self._optimizer.param_groups:
            # From the step's number alone: no scheduler has a state that could be lost.
            group["lr"] = self.rate
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]  # torch's own gap
        self._optimizer.step()
        self.average.update_parameters(self.network)
        self.steps += 1

    def start_training(self) -> None:
        """Put the network in training mode."""
        self._model.train()

    def broadcast_statistics(self) -> None:
        """Copy the batch statistics of rank 0 to all ranks; each has seen other samples."""
        if self._world.size == 1:
            return
        for module in (self.network, self.average):
            for buffer in module.buffers():
                buffer.copy_(self._world.broadcast(buffer))

    def state(self) -> dict[str, Any]:
        """Return everything that the next step depends on, for a checkpoint."""
        return {
            "network": self.network.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "steps": self.steps,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Restore `state`."""
        self.network.load_state_dict(state["network"])
        self.average.load_state_dict(state["average"])
        # torch keeps the tensors it is given: two learners would share their momentum.
        self._optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))
        self.steps = int(state["steps"])

    def candidates(self) -> dict[str, nn.Module]:
        """Return the networks that a run may end with: the weights and their average."""
        return {"weights": self.network, "average": self.average}


def _decay(asked: float, total_steps: int) -> float:
    """Return the decay asked for, lowered so that the average covers at most a tenth of the run."""
    # A longer average would still contain the random initial weights at the end.
    return min(asked, max(0.5, 1 - 10 / total_steps))
