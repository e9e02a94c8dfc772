"""A pre-training under way: one epoch of it, and the state that the next one depends on."""

import copy
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from kspr.errors import InputError
from kspr.models.network import Network, seeded
from kspr.train.images.augment import simsiam_views
from kspr.train.randomness import generator_for, seed_for
from kspr.train.schedule import cosine_rate
from kspr.train.simsiam.heads import Heads, SimSiamSettings
from kspr.train.simsiam.readout import Images, Labels, Readout

__all__ = ["PretrainEpoch", "Run"]

_HEADS, _READOUT, _VIEWS, _LAYERS = range(4)
"""Who draws random numbers; each has a stream of its own, in each epoch."""


@dataclass(frozen=True)
class PretrainEpoch:
    """One epoch of pre-training."""

    epoch: int
    loss: float
    """Minus the mean cosine between a prediction and the other view; -1 is the least."""
    spread: float
    """How outputs vary: about 1 when healthy, 0 when all are one point."""
    neighbours_right: float | None
    """Share of images whose nearest others carry their label; None where it was not read out."""


class Run:
    """SimSiam on one network; `epoch` epochs of `steps` steps are done."""

    def __init__(
        self,
        network: Network,
        inputs: Images,
        settings: SimSiamSettings,
        seed: int,
        labels: Labels | None,
    ) -> None:
        if len(inputs) < 2:
            raise InputError(f"inputs must hold at least 2 images, got {len(inputs)}.")
        self._network, self._inputs, self._settings, self._seed = network, inputs, settings, seed
        self._device = next(network.parameters()).device
        self._batch = min(settings.batch_size, len(inputs))
        self._readout = None if labels is None else self._make_readout(labels)
        self._heads = self._make_heads()
        self._optimizer = self._make_optimizer()
        self.steps = len(inputs) // self._batch
        self.history: list[PretrainEpoch] = []

    @property
    def epoch(self) -> int:
        """How many epochs are done."""
        return len(self.history)

    def learn(self, advance: Callable[[], None]) -> PretrainEpoch:
        """Go through all images once, in an order of this epoch's own."""
        generator = generator_for(self._seed, "pretrain", _VIEWS, self.epoch)
        order = torch.randperm(len(self._inputs), generator=generator)
        self._network.train()
        sums = torch.zeros(2, device=self._device)
        # Layers such as dropout draw from torch's own generator.
        with seeded(seed_for(self._seed, "pretrain", _LAYERS, self.epoch)):
            # Images that are left over after the last full batch have their turn in other epochs.
            for step, rows in enumerate(order[: self.steps * self._batch].view(self.steps, -1)):
                self._set_rate(self.epoch * self.steps + step)
                sums += self._step(rows, generator)
                advance()
        loss, spread = (sums / self.steps).tolist()
        self.history.append(PretrainEpoch(self.epoch, loss, spread, self._read_out()))
        return self.history[-1]

    def state(self) -> dict[str, Any]:
        """Return a copy of everything that the next epoch depends on."""
        live = {
            "network": self._network.state_dict(),
            "heads": self._heads.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "history": [asdict(epoch) for epoch in self.history],
            "run": self._identity(),
        }
        return copy.deepcopy(live)

    def load(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken."""
        there, here = state.get("run", {}), self._identity()
        for name, value in here.items():
            if there.get(name) != value:
                raise InputError(
                    f"state is of another pre-training: its {name} is {there.get(name)}, here it "
                    f"is {value}. Start without a state."
                )
        self._network.load_state_dict(state["network"])
        self._heads.load_state_dict(state["heads"])
        self._optimizer.load_state_dict(state["optimizer"])
        self.history = [PretrainEpoch(**epoch) for epoch in state["history"]]

    def _identity(self) -> dict[str, Any]:
        """Return what must not change between two halves of a run, as plain numbers."""
        plain = {k: v for k, v in asdict(self._settings).items() if not isinstance(v, dict)}
        return {"images": len(self._inputs), "seed": self._seed, **plain}

    def _step(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        """Take one step; return the loss and the spread."""
        images = self._inputs.take(rows).to(self._device)
        first, second = simsiam_views(images, generator, self._settings.views)
        loss, spread = self._heads(self._network(first).features, self._network(second).features)
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self._optimizer.step()
        return torch.stack([loss.detach(), spread])

    def _make_heads(self) -> Heads:
        settings, n_features = self._settings, self._network.n_features
        with seeded(seed_for(self._seed, "pretrain", _HEADS)):
            heads = Heads(
                n_features, settings.width, settings.bottleneck, settings.projector_layers
            )
        return heads.to(self._device)

    def _make_optimizer(self) -> torch.optim.SGD:
        settings, heads = self._settings, self._heads
        falling = [*self._network.parameters(), *heads.projector.parameters()]
        return torch.optim.SGD(
            [
                {"params": [p for p in falling if p.requires_grad]},
                # A predictor that stops to adapt would let go of what the network learns late.
                {"params": list(heads.predictor.parameters())},
            ],
            lr=settings.rate * self._batch / 256,
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
        )

    def _set_rate(self, step: int) -> None:
        base = self._settings.rate * self._batch / 256
        falling = self._optimizer.param_groups[0]
        falling["lr"] = cosine_rate(step, self._settings.epochs * self.steps, base)

    def _make_readout(self, labels: Labels) -> Readout:
        views = self._settings.views
        generator = generator_for(self._seed, "pretrain", _READOUT)
        return Readout(self._inputs, labels, generator, views.mean, views.std)

    def _read_out(self) -> float | None:
        number = self.epoch + 1
        due = number % self._settings.readout_every == 0 or number == self._settings.epochs
        return self._readout(self._network) if due and self._readout is not None else None
