"""Features of images learned without labels: SimSiam, and typical patches.

SimSiam (Chen and He, 2021) pre-trains a network. Typical patches come from k-means, and an image is
described by how strongly each of them appears in each quarter of it (Coates, Ng, Lee: An analysis
of single-layer networks in unsupervised feature learning, 2011). No label is used, so these
features can judge labels. They take about two seconds for a thousand images on two cores. Where
images are few, a linear fit to them knows more than a network that has learned the labels.
"""

import copy
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from kspr._progress import Progress, ProgressMode
from kspr.errors import InputError
from kspr.models.network import Network, seeded
from kspr.selectors.validation import check_count, check_type, check_types
from kspr.train.augment import ViewSettings, simsiam_views
from kspr.train.inputs import Inputs
from kspr.train.learner import cosine_rate, load_optimizer
from kspr.train.run_folder import Checkpoints
from kspr.train.settings import TrainSettings
from kspr.train.task import Setup
from kspr.train.world import World, generator_for, integers_below, seed_for


@dataclass(frozen=True)
class SimSiamSettings:
    """Settings of the pre-training.

    100 epochs are the paper's for CIFAR; the other defaults, which it leaves open, are SimSiam's.
    """

    epochs: int = 100
    """Passes over all images; the paper takes 350 for WebVision."""
    batch_size: int = 512
    """Images per step."""
    rate: float = 0.03
    """Learning rate per 256 images of a batch; it falls along half a cosine to 0."""
    momentum: float = 0.9
    """Momentum of SGD."""
    weight_decay: float = 5e-4
    """Weight decay on all parameters."""
    width: int = 2048
    """Width of the projector's layers and output; 256 is enough for small networks on a CPU."""
    bottleneck: int = 512
    """Width of the predictor's hidden layer; SimSiam takes a quarter of `width`."""
    projector_layers: int = 3
    """Layers of the projector; SimSiam's own CIFAR experiments have 2."""
    views: ViewSettings = field(default_factory=ViewSettings)
    """Augmentations of the two views."""

    def __post_init__(self) -> None:
        check_types(self)
        check_count("epochs", self.epochs, 0)
        check_count("batch_size", self.batch_size, 2)
        for name in ("width", "bottleneck", "projector_layers"):
            check_count(name, getattr(self, name), 1)
        if not self.rate > 0:
            raise InputError(f"rate must be positive, got {self.rate}.")


class Heads(nn.Module):
    """A projector that ends in batch normalisation, and a predictor with a bottleneck."""

    def __init__(self, n_features: int, width: int, bottleneck: int, layers: int) -> None:
        super().__init__()
        hidden = [_normed(n_features if k == 0 else width, width) for k in range(layers - 1)]
        self.projector = nn.Sequential(
            *(part for pair in hidden for part in (*pair, nn.ReLU(inplace=True))),
            nn.Linear(width if hidden else n_features, width, bias=False),
            # As in SimSiam's code, which leaves the last normalisation without scale and shift.
            nn.BatchNorm1d(width, affine=False),
        )
        self.predictor = nn.Sequential(
            *_normed(width, bottleneck), nn.ReLU(inplace=True), nn.Linear(bottleneck, width)
        )

    def forward(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss of the features of two views, and the spread of the first projections."""
        z_first, z_second = self.projector(first), self.projector(second)
        p_first, p_second = self.predictor(z_first), self.predictor(z_second)
        loss = disagreement(p_first, z_second) / 2 + disagreement(p_second, z_first) / 2
        return loss, spread(z_first)


def _normed(n_in: int, n_out: int) -> tuple[nn.Module, nn.Module]:
    # No bias: the normalisation after it subtracts the mean anyway.
    return nn.Linear(n_in, n_out, bias=False), nn.BatchNorm1d(n_out)


def disagreement(predicted: Tensor, target: Tensor) -> Tensor:
    """Return minus the mean cosine, between -1 and 1, without gradient to `target`."""
    # With that gradient all outputs become equal, which minimises the loss (collapse).
    return -functional.cosine_similarity(predicted.float(), target.detach().float(), dim=1).mean()


@torch.no_grad()
def spread(outputs: Tensor) -> Tensor:
    """Return the spread of outputs scaled to length 1: 1 for a Gaussian, 0 for equal outputs.

    It is the standard deviation per dimension times the square root of the number of dimensions.
    """
    unit = functional.normalize(outputs.float(), dim=1)
    deviation: Tensor = unit.std(0).mean()
    # Coordinates of a random unit vector have a deviation of 1 / sqrt(dimensions).
    return deviation * float(unit.shape[1] ** 0.5)


_HEADS, _VIEWS, _LAYERS = 0, 2, 3
"""Purposes of random numbers; each has its own generator in each epoch."""
_COLLAPSED = 0.1
"""Spread below which outputs count as collapsed; healthy runs stay near 1."""


class PretrainEpoch(NamedTuple):
    """The metrics of one epoch of pre-training."""

    epoch: int
    """Number of the epoch, from 0."""
    loss: float
    """Minus the mean cosine between a prediction and the other view; -1 is the minimum."""
    spread: float
    """Spread of the outputs: about 1 when healthy, 0 when all are equal (collapse)."""


class Pretraining:
    """SimSiam on one network, with `steps` steps per epoch; the classifier does not change.

    Parameters
    ----------
    network
        Trained in place, on the device of its weights.
    inputs
        Images by row number: ``take(index)`` returns (n, c, h, w), bytes or floats from 0 to 1.
    settings
        How to train.
    seed
        Seed of all random numbers.
    prepare
        Function from pixels, from 0 to 1, to what `network` takes: how they are normalised.
    """

    def __init__(
        self,
        network: Network,
        inputs: Inputs,
        settings: SimSiamSettings,
        seed: int,
        prepare: Callable[[Tensor], Tensor],
    ) -> None:
        if len(inputs) < 2:
            raise InputError(f"inputs must hold at least 2 images, got {len(inputs)}.")
        self._network, self._inputs, self._settings, self._seed = network, inputs, settings, seed
        self._prepare = prepare
        self._device = next(network.parameters()).device
        self._batch = min(settings.batch_size, len(inputs))
        self.steps = len(inputs) // self._batch
        self.history: list[PretrainEpoch] = []
        with seeded(seed_for(seed, "pretrain", _HEADS)):
            self._heads = Heads(
                network.n_features, settings.width, settings.bottleneck, settings.projector_layers
            ).to(self._device)
        # SimSiam's linear rule: the rate is given per 256 images.
        self._rate = settings.rate * self._batch / 256
        falling = [*network.parameters(), *self._heads.projector.parameters()]
        self._optimizer = torch.optim.SGD(
            [
                {"params": [p for p in falling if p.requires_grad]},
                # The predictor's rate does not fall: it must keep up with the network to the end.
                {"params": list(self._heads.predictor.parameters())},
            ],
            lr=self._rate,
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
        )

    @property
    def epoch(self) -> int:
        """Number of epochs that are done."""
        return len(self.history)

    def run(
        self,
        on_epoch: Callable[[dict[str, Any]], None] | None = None,
        *,
        progress: ProgressMode = "auto",
    ) -> tuple[PretrainEpoch, ...]:
        """Train for the epochs that are left, and return the metrics of all.

        `on_epoch` is called after each epoch with its `state`. If the outputs collapse to one
        point, a warning is given once.
        """
        warned = False
        left = self._settings.epochs - self.epoch
        with Progress(progress, "pre-training", left * self.steps) as bar:
            for _ in range(left):
                epoch = self.learn(bar.advance)
                if not math.isfinite(epoch.loss):
                    raise InputError(
                        f"SimSiam diverged in epoch {epoch.epoch + 1}: its loss is {epoch.loss}. "
                        "Train again with a smaller rate in [pretrain], "
                        f"{self._settings.rate / 10:g} for example."
                    )
                if epoch.spread < _COLLAPSED and not warned:
                    warned = True
                    warnings.warn(
                        f"SimSiam collapsed in epoch {epoch.epoch + 1}: all images get nearly the "
                        f"same output (spread {epoch.spread:.2g}, where 1 is healthy). Such "
                        "features cannot be used for a selection. Lower the rate, enlarge the "
                        "batch, or set pretrain_epochs to 0.",
                        stacklevel=2,
                    )
                if on_epoch is not None:
                    on_epoch(self.state())
        return tuple(self.history)

    def learn(self, advance: Callable[[], None]) -> PretrainEpoch:
        """Train for one epoch on all images in random order; call `advance` after each step."""
        generator = generator_for(self._seed, "pretrain", _VIEWS, self.epoch)
        order = torch.randperm(len(self._inputs), generator=generator)
        self._network.train()
        sums = torch.zeros(2, device=self._device)
        total = self._settings.epochs * self.steps
        with seeded(seed_for(self._seed, "pretrain", _LAYERS, self.epoch)):
            # Images left over after the last full batch are used in other epochs.
            for step, rows in enumerate(order[: self.steps * self._batch].view(self.steps, -1)):
                rate = cosine_rate(self.epoch * self.steps + step, total, self._rate)
                self._optimizer.param_groups[0]["lr"] = rate
                sums += self._step(rows, generator)
                advance()
        self.history.append(PretrainEpoch(self.epoch, *(sums / self.steps).tolist()))
        return self.history[-1]

    def state(self) -> dict[str, Any]:
        """Return a copy of everything that the next epoch depends on, for a checkpoint."""
        live = {
            "network": self._network.state_dict(),
            "heads": self._heads.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "history": [epoch._asdict() for epoch in self.history],
        }
        # state_dict returns the live tensors, which the next epoch changes in place.
        return copy.deepcopy(live)

    def load(self, state: dict[str, Any]) -> None:
        """Restore `state`: on a CPU the result is then the same, bit for bit."""
        self._network.load_state_dict(state["network"])
        self._heads.load_state_dict(state["heads"])
        load_optimizer(self._optimizer, state["optimizer"])
        self.history = [PretrainEpoch(**epoch) for epoch in state["history"]]

    def _step(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        """Take one step and return the loss and the spread."""
        images = self._inputs.take(rows).to(self._device)
        views = simsiam_views(images, generator, self._settings.views)
        first, second = (self._prepare(view) for view in views)
        # Two passes, not one of both views: batch statistics are those of one view, as in SimSiam.
        loss, spread = self._heads(self._network(first).features, self._network(second).features)
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self._optimizer.step()
        return torch.stack([loss.detach(), spread])


def simsiam_settings(settings: TrainSettings) -> SimSiamSettings:
    """Return the settings of the pre-training; raise `InputError` for an unknown parameter."""
    given = dict(settings.pretrain)
    check_type("pretrain.views", given.get("views", {}), Mapping)
    try:
        given["views"] = ViewSettings(**given.get("views", {}))
        return SimSiamSettings(epochs=settings.pretrain_epochs, **given)
    except TypeError as error:
        raise InputError(
            f"pretrain holds a parameter that SimSiam does not have: {error}."
        ) from error


def pretrain_network(setup: Setup, network: Network, checkpoints: Checkpoints) -> None:
    """Pre-train `network` on rank 0, from the newest of `checkpoints`; broadcast its weights."""
    settings, world = setup.settings, setup.world
    network.to(world.device)
    # The other ranks wait for the broadcast below.
    if world.rank == 0:
        stored = checkpoints.newest()
        asked, seed = simsiam_settings(settings), seed_for(settings.seed, "pretrain")
        # As for selection and training: other pixels would be other images to the network.
        run = Pretraining(network, setup.task.inputs, asked, seed, setup.pipeline.plain_view)
        with checkpoints.fitting():
            if stored is not None:
                run.load(stored["state"])
        run.run(lambda state: checkpoints.write(run.epoch, {"epoch": run.epoch, "state": state}))
    with torch.no_grad():
        # state_dict returns the tensors themselves, so the copy changes the network.
        for value in network.state_dict().values():
            value.copy_(world.broadcast(value))


_SIDE = 32
"""Larger images are scaled down to this many pixels: patches tell of textures and edges."""
_SIZE = 6
"""Side of a patch in pixels."""
_PATCHES, _PER_IMAGE = 50_000, 50
"""Patches that the typical ones are learned from, and how many of these an image gives."""
_KINDS = 200
"""Number of typical patches."""
_ROUNDS = 10
_LEAST_CONTRAST = 10 / 255**2
"""Added to the variance of a patch, so that even patches are not scaled up to noise."""
_LEAST_VARIANCE = 0.05
"""Added to the variance of each direction of normalised patches before it becomes 1."""
_THRESHOLD = 1.0
"""Weaker appearances of a typical patch count as none."""
_REGIONS = 2
"""Regions along each side of an image."""
_BATCH = 128


class Patches(NamedTuple):
    """Typical patches, as filters for images."""

    filters: Tensor
    """Shape (kinds, channels, side, side); the entries of each add up to 0."""
    offset: Tensor
    """What each filter responds to the mean patch."""

    def features(self, images: Tensor) -> Tensor:
        """Return the features of images with pixels from 0 to 1, a row for each."""
        size = self.filters.shape[2]
        # The variance of every patch, from means over windows: no patch is cut out.
        mean, square = (
            functional.avg_pool2d(values.mean(dim=1, keepdim=True), size, stride=1)
            for values in (images, images.square())
        )
        contrast = ((square - mean.square()).clamp(min=0) + _LEAST_CONTRAST).sqrt()
        response = functional.conv2d(images, self.filters) / contrast - self.offset[:, None, None]
        # A patch and its negative are different things to see.
        seen = [functional.relu(sign * response - _THRESHOLD) for sign in (1, -1)]
        regions = [functional.adaptive_avg_pool2d(part, _REGIONS).flatten(1) for part in seen]
        # The root: twice the area does not tell twice as much.
        return torch.cat(regions, dim=1).sqrt()


def patch_features(inputs: Inputs, world: World, *, mirrored: bool, seed: int) -> Tensor:
    """Return features of all images, on every rank; their patches are learned first.

    With `mirrored`, each image is described by its mean with its mirror image: for images that mean
    the same when they are mirrored. Equal seeds give equal features.
    """
    patches = learn_patches(inputs, world, seed)
    parts = torch.split(world.shard(torch.arange(len(inputs))), _BATCH)
    mode: ProgressMode = "auto" if world.rank == 0 else False
    features = []
    with Progress(mode, "patches", len(parts)) as bar, torch.no_grad():
        for part in parts:
            images = _prepared(inputs.take(part).to(world.device))
            own = patches.features(images)
            features.append((own + patches.features(images.flip(3))) / 2 if mirrored else own)
            bar.advance()
    return world.all_gather(torch.cat(features), len(inputs))


def learn_patches(inputs: Inputs, world: World, seed: int) -> Patches:
    """Return the typical patches of random images among `inputs`; the same on every rank."""
    generator = generator_for(seed, "patches")
    chosen = torch.randperm(len(inputs), generator=generator)[: _PATCHES // _PER_IMAGE]
    images = torch.cat([_prepared(inputs.take(part).cpu()) for part in torch.split(chosen, _BATCH)])
    cut = _random_patches(images, generator)
    shape = cut.shape[1:]
    flat = cut.flatten(1)
    flat = flat - flat.mean(dim=1, keepdim=True)
    flat = flat / (flat.square().mean(dim=1, keepdim=True) + _LEAST_CONTRAST).sqrt()
    mean = flat.mean(dim=0)
    whitening = _whitening(flat - mean)
    kinds = _typical((flat - mean) @ whitening, generator) @ whitening
    # Centred: the mean of a patch then has no effect, and need not be subtracted.
    kinds = kinds - kinds.mean(dim=1, keepdim=True)
    # Of rank 0: processors may round differently.
    filters, offset = (world.broadcast(part).to(world.device) for part in (kinds, kinds @ mean))
    return Patches(filters.reshape(-1, *shape), offset)


def _prepared(images: Tensor) -> Tensor:
    """Return images as floats from 0 to 1, large ones scaled down."""
    values = images.float() / 255
    shorter = min(values.shape[2:])
    if shorter <= _SIDE:
        return values
    sides = [round(side * _SIDE / shorter) for side in values.shape[2:]]
    return functional.interpolate(values, sides, mode="area")


def _random_patches(images: Tensor, generator: torch.Generator) -> Tensor:
    """Return patches from random places ``(patches, channels, side, side)``."""
    # Of tiny images, patches still have several places.
    size = max(1, min(_SIZE, min(images.shape[2:]) // 2))
    windows = images.unfold(2, size, 1).unfold(3, size, 1)
    image = torch.arange(len(images)).repeat_interleave(_PER_IMAGE)
    top, left = (
        integers_below(torch.full(image.shape, windows.shape[axis]), generator) for axis in (2, 3)
    )
    return windows[image, :, top, left]


def _whitening(patches: Tensor) -> Tensor:
    """Return the symmetric matrix after which centred patches have nearly equal variances."""
    variances, directions = torch.linalg.eigh(patches.T @ patches / len(patches))
    scale = (variances.clamp(min=0) + _LEAST_VARIANCE).rsqrt()
    return Tensor((directions * scale) @ directions.T)


def _typical(patches: Tensor, generator: torch.Generator) -> Tensor:
    """Return directions of length 1 that patches lie along, by spherical k-means."""
    draws = torch.randn((min(_KINDS, len(patches)), patches.shape[1]), generator=generator)
    kinds = functional.normalize(draws, dim=1)
    for _ in range(_ROUNDS):
        along = patches @ kinds.T
        nearest = along.abs().argmax(dim=1, keepdim=True)
        own = torch.zeros_like(along).scatter_(1, nearest, along.gather(1, nearest))
        # A kind keeps a share of its old direction, and one that is nearest to none all of it.
        kinds = functional.normalize(kinds + own.T @ patches, dim=1)
    return kinds
