"""`Pretraining`: SimSiam on one network, epoch by epoch, and a monitor of its features."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from kspr.core.labels import encode_labels
from kspr.errors import InputError
from kspr.models.network import Network, evaluating, seeded
from kspr.train.cycle.learner import cosine_rate
from kspr.train.images.augment import normalise, simsiam_views
from kspr.train.inputs import Inputs
from kspr.train.randomness import generator_for, seed_for
from kspr.train.run_folder import check_same
from kspr.train.simsiam.heads import Heads, SimSiamSettings

__all__ = ["Labels", "PretrainEpoch", "Pretraining", "Readout", "nearest_labels"]

Labels = Sequence[int] | np.ndarray | Tensor

_BANK, _QUERIES = 5000, 1000
_CHUNK = 256
_SOFTNESS = 0.1
"""Neighbours are weighted by exp(cosine / this), as in SimSiam's own monitor."""

_HEADS, _READOUT, _VIEWS, _LAYERS = range(4)
"""Purposes of random numbers; each has its own generator in each epoch."""


class Readout:
    """Measure how often near neighbours share a label, on a fixed sample of the images."""

    def __init__(
        self,
        inputs: Inputs,
        labels: Labels,
        generator: torch.Generator,
        mean: tuple[float, ...],
        std: tuple[float, ...],
    ) -> None:
        if len(labels) != len(inputs):
            raise InputError(f"inputs hold {len(inputs)} images but labels {len(labels)}.")
        self._inputs, self._mean, self._std = inputs, mean, std
        # The same images in every epoch, so that epochs can be compared.
        rows = torch.randperm(len(inputs), generator=generator)[: _BANK + _QUERIES]
        # One query to five rows of the bank, as _QUERIES is to _BANK, on small data too.
        self._n_queries = max(1, len(rows) // 6)
        self._rows = rows
        self._labels = torch.as_tensor(encode_labels(np.asarray(labels)[rows]).codes)

    def __call__(self, network: Network) -> float:
        """Return the share of images whose neighbours vote for their own label."""
        device = next(network.parameters()).device
        with evaluating(network):
            parts = [
                network(self._view(rows).to(device)).features.float()
                for rows in torch.split(self._rows, _CHUNK)
            ]
        features, labels, n = torch.cat(parts), self._labels.to(device), self._n_queries
        found = nearest_labels(features[n:], labels[n:], features[:n])
        return float((found == labels[:n]).float().mean())

    def _view(self, rows: Tensor) -> Tensor:
        return normalise(self._inputs.take(rows), self._mean, self._std)


def nearest_labels(bank: Tensor, labels: Tensor, queries: Tensor) -> Tensor:
    """Return for each row of `queries` the label for which its nearest rows of `bank` vote."""
    # The square root of the bank's size: enough neighbours to outvote some wrong labels, and few
    # enough to be near.
    n_neighbours = max(1, int(len(bank) ** 0.5))
    cosine = functional.normalize(queries, dim=1) @ functional.normalize(bank, dim=1).T
    nearest = cosine.topk(n_neighbours, dim=1)
    votes = torch.zeros(len(queries), int(labels.max()) + 1, device=bank.device)
    votes.scatter_add_(1, labels[nearest.indices], (nearest.values / _SOFTNESS).exp())
    return votes.argmax(1)


@dataclass(frozen=True)
class PretrainEpoch:
    """The metrics of one epoch of pre-training."""

    epoch: int
    """Number of the epoch, from 0."""
    loss: float
    """Minus the mean cosine between a prediction and the other view; -1 is the minimum."""
    spread: float
    """Spread of the outputs: about 1 when healthy, 0 when all are equal (collapse)."""
    neighbours_right: float | None
    """Share of images whose nearest neighbours have their label; None if not measured."""


class Pretraining:
    """SimSiam on one network, with `steps` steps per epoch."""

    def __init__(
        self,
        network: Network,
        inputs: Inputs,
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
        """Number of epochs that are done."""
        return len(self.history)

    def learn(self, advance: Callable[[], None]) -> PretrainEpoch:
        """Train for one epoch on all images in random order; call `advance` after each step."""
        generator = generator_for(self._seed, "pretrain", _VIEWS, self.epoch)
        order = torch.randperm(len(self._inputs), generator=generator)
        self._network.train()
        sums = torch.zeros(2, device=self._device)
        with seeded(seed_for(self._seed, "pretrain", _LAYERS, self.epoch)):
            # Images left over after the last full batch are used in other epochs.
            for step, rows in enumerate(order[: self.steps * self._batch].view(self.steps, -1)):
                self._set_rate(self.epoch * self.steps + step)
                sums += self._step(rows, generator)
                advance()
        loss, spread = (sums / self.steps).tolist()
        self.history.append(PretrainEpoch(self.epoch, loss, spread, self._read_out()))
        return self.history[-1]

    def state(self) -> dict[str, Any]:
        """Return a copy of everything that the next epoch depends on, for a checkpoint."""
        live = {
            "network": self._network.state_dict(),
            "heads": self._heads.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "history": [asdict(epoch) for epoch in self.history],
            "run": self._identity(),
        }
        # state_dict returns the live tensors, which the next epoch changes in place.
        return copy.deepcopy(live)

    def load(self, state: dict[str, Any]) -> None:
        """Restore `state`; raise `InputError` if it belongs to another pre-training."""
        check_same(state.get("run", {}), self._identity(), "state", "or start without a state")
        self._network.load_state_dict(state["network"])
        self._heads.load_state_dict(state["heads"])
        self._optimizer.load_state_dict(state["optimizer"])
        self.history = [PretrainEpoch(**epoch) for epoch in state["history"]]

    def _identity(self) -> dict[str, Any]:
        """Return what must be equal for a pre-training to be resumed."""
        plain = {k: v for k, v in asdict(self._settings).items() if not isinstance(v, dict)}
        return {"images": len(self._inputs), "seed": self._seed, **plain}

    def _step(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        """Take one step and return the loss and the spread."""
        images = self._inputs.take(rows).to(self._device)
        first, second = simsiam_views(images, generator, self._settings.views)
        # Two passes, not one of both views: batch statistics are those of one view, as in SimSiam.
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
                # The predictor's rate does not fall: it must keep up with the network to the end.
                {"params": list(heads.predictor.parameters())},
            ],
            # SimSiam's linear rule: the rate is given per 256 images.
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
