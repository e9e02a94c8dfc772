"""`TrainSettings`: how a network is trained, as one frozen value made from a preset."""

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.resources import files
from typing import Any, Literal, Self, get_args

import numpy as np

from kspr.errors import InputError, check_seed
from kspr.selectors import from_preset
from kspr.selectors.options import ControlName
from kspr.selectors.presets import AnySelector
from kspr.selectors.probability import ProbabilitySelector
from kspr.selectors.validation import check_choice, check_count, check_type, check_types

_DATA = ("cifar10", "cifar100", "clothing1m", "webvision")
PRESETS = ("cpu", *_DATA, *(f"paper-{name}" for name in _DATA))
"""Names of the TOML files in ``presets/``."""
_TABLES = ("selection", "pretrain")


@dataclass(frozen=True)
class TrainSettings:
    """How a network is trained, and how its data is selected during training.

    ``TrainSettings.from_preset("cpu", epochs=30)`` is the usual way to make one. Every value is
    checked when the object is made.

    Examples
    --------
    >>> settings = TrainSettings.from_preset("cpu", epochs=30, selection={"q": 0.05})
    >>> settings.epochs, settings.batch_size, settings.selection["q"]
    (30, 128, 0.05)
    >>> TrainSettings(epochs=0)
    Traceback (most recent call last):
    kspr.errors.InputError: epochs must be a whole number of at least 1, got 0.
    """

    input: Literal["embeddings", "images"] = "embeddings"
    """Train a small network on frozen features, or a whole network on images."""
    network: str = "mlp"
    """Name of the network, one of `kspr.models.build.NAMES`."""
    weights: str | None = None
    """Local file with initial weights, or ``"pretrained"`` for timm and torchvision."""
    feature_layer: str | None = None
    """Name of the layer whose output is the features; None for the input of the classifier."""
    image_size: int | None = None
    """Side in pixels to which images are scaled; None for the size of the first image."""
    epochs: int = 15
    """Number of passes over all samples, warm-up included."""
    warmup_epochs: int = 1
    """Epochs on all given labels before a selection is used."""
    pretrain_epochs: int = 0
    """Epochs of SimSiam before everything else; images only."""
    pretrain: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of SimSiam, such as ``{"batch_size": 256}``."""
    batch_size: int = 128
    """Samples per step, over all processes."""
    learning_rate: float = 0.05
    """Learning rate of the first step; it falls along half a cosine to 0."""
    momentum: float = 0.9
    """Momentum of SGD."""
    weight_decay: float = 5e-4
    """Weight decay of SGD, on all parameters."""
    mix_probability: float = 1.0
    """Probability that a batch is mixed with rejected samples: p in Alg. 3."""
    mix_alpha: float = 0.5
    """Mixing weights are drawn from Beta(alpha, alpha)."""
    temperature: float = 0.5
    """Temperature of pseudo-labels; they are sharpened below 1."""
    confidence: float = 0.0
    """Least probability of a pseudo-label; rejected samples below it are not mixed in."""
    ema_decay: float = 0.999
    """Share of the weights' moving average that is kept per step. It is lowered where the average
    would cover more than a tenth of the run."""
    select_every: int = 1
    """Epochs between two selections; 0 selects once, after the warm-up, and needs no referees."""
    select_on: Literal["referees", "network", "inputs"] = "network"
    """What labels are judged by. ``"referees"``: networks that judge a part of the rows which they
    were not trained on, once, before the first epoch. ``"network"``: the features of the network in
    training, which has learned these labels (Alg. 3). ``"inputs"``: the embeddings."""
    referee_parts: int = 2
    """Parts that the rows are cut into for referees. One is trained for each part, on all others:
    more parts make better referees and cost more time."""
    selector: Literal["default", "paper", "spr"] = "default"
    """`KnockoffsSPR()`, `PaperKnockoffsSPR()` or `SPR()`."""
    selection: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the selector, such as ``{"q": 0.1}``."""
    guard: bool = True
    """Use a selection only if it is healthy, train a reference network on all given labels beside
    the cycle, and end with the better of the two. The paper has no guard."""
    held_out: float = 0.05
    """Share of the samples that the guard keeps from training, to compare networks on."""
    padding: int = 4
    """Pixels added on each side of an image before it is cropped to its old size; 0: no crop."""
    flip: bool = True
    """Mirror each training image with probability 1/2."""
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    """Mean per channel that is subtracted from images, on the scale 0 to 1."""
    std: tuple[float, ...] = (0.25, 0.25, 0.25)
    """Standard deviation per channel by which images are divided, on the scale 0 to 1."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Number format of the network's layers in training; weights stay in float32. Where bfloat16
    fails on a CPU, float32 is used, with a warning; see `strict`."""
    channels_last: bool = False
    """Store images with the channels last in memory, which some processors compute faster."""
    deterministic: bool = False
    """Refuse operations whose result may differ between runs."""
    strict: bool = False
    """Raise an error where bfloat16 fails on this processor, instead of using float32."""
    device: str = "auto"
    """``auto`` (a GPU if there is one), ``cpu``, ``cuda``, ``cuda:1``, or any that torch knows."""
    seed: int = 0
    """Seed of all random numbers: equal seeds give equal networks on equal machines."""

    def __post_init__(self) -> None:
        check_types(self)
        for name in ("mean", "std"):
            # TOML and JSON give lists; the object is frozen, so it is set past the lock.
            object.__setattr__(self, name, tuple(float(v) for v in getattr(self, name)))
        for name in _TABLES:
            # A copy: a later change of the caller's dictionary must not change frozen settings.
            object.__setattr__(self, name, dict(getattr(self, name)))
        _check(self)

    @classmethod
    def from_preset(cls, name: str, **changes: Any) -> Self:
        """Return the settings of a preset, with `changes`.

        Parameters
        ----------
        name
            ``cpu``; ``cifar10``, ``cifar100``, ``clothing1m`` or ``webvision``, ours; or
            ``paper-cifar10`` and so on, the paper's procedure.
        **changes
            Any fields. The entries of `selection` and `pretrain` are added to those of the preset;
            with another `selector`, `selection` starts empty.

        Examples
        --------
        >>> TrainSettings.from_preset("cifar10").epochs
        180
        """
        check_choice("preset", name, PRESETS)
        text = (files("kspr.train") / "presets" / f"{name}.toml").read_text(encoding="utf-8")
        own = tomllib.loads(text)
        start = cls.from_preset(own.pop("base")) if "base" in own else cls()
        return start.changed(**own).changed(**changes)

    def changed(self, **changes: Any) -> Self:
        """Return these settings with `changes`, combined as in `from_preset`."""
        known = {entry.name for entry in fields(self)}
        for name in changes:
            if name not in known:
                raise InputError(
                    f"{name!r} is no setting of a run; there are {', '.join(sorted(known))}."
                )
        for name in _TABLES:
            check_type(name, changes.get(name, {}), Mapping)
        tables = {name: {**getattr(self, name), **changes.get(name, {})} for name in _TABLES}
        if changes.get("selector", self.selector) != self.selector:
            # Parameters of one selector need not exist for another: SPR has no q.
            tables["selection"] = dict(changes.get("selection", {}))
            # Referees learn from `KnockoffsSPR()`; the paper's selectors judge the network itself.
            if self.select_on == "referees" and changes["selector"] != "default":
                changes = {"select_on": "network", **changes}
        return replace(self, **{**changes, **tables})

    @property
    def has_referees(self) -> bool:
        """Whether labels are judged by networks that have not seen them."""
        used = self.select_every > 0 and self.warmup_epochs < self.epochs
        return self.select_on == "referees" and used

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as a dictionary that JSON can hold."""
        return {**asdict(self), "mean": list(self.mean), "std": list(self.std)}


def _check(settings: TrainSettings) -> None:
    check_choice("input", settings.input, ("embeddings", "images"))
    check_choice("select_on", settings.select_on, ("referees", "network", "inputs"))
    check_choice("selector", settings.selector, ("default", "paper", "spr"))
    check_choice("precision", settings.precision, ("float32", "bfloat16"))
    for name, least in _COUNTS.items():
        check_count(name, getattr(settings, name), least)
    check_seed(settings.seed)
    for name, (low, high) in _RANGES.items():
        value = getattr(settings, name)
        if not low <= value <= high:
            raise InputError(f"{name} must be a number from {low:g} to {high:g}, got {value!r}.")
    for name in ("learning_rate", "mix_alpha", "temperature"):
        if not getattr(settings, name) > 0:
            raise InputError(f"{name} must be above 0, got {getattr(settings, name)!r}.")
    if min(settings.std, default=1.0) <= 0:
        raise InputError(f"std must be above 0 for every channel, got {settings.std}.")
    _check_together(settings)


_COUNTS = {
    "epochs": 1,
    "warmup_epochs": 0,
    "pretrain_epochs": 0,
    "batch_size": 2,
    "select_every": 0,
    "referee_parts": 2,
    "padding": 0,
}


_RANGES = {
    "momentum": (0.0, 1.0),
    "mix_probability": (0.0, 1.0),
    "confidence": (0.0, 1.0),
    "ema_decay": (0.0, 1.0),
    "held_out": (0.0, 0.5),
    "weight_decay": (0.0, float("inf")),
}


def _check_together(settings: TrainSettings) -> None:
    if settings.warmup_epochs > settings.epochs:
        raise InputError(
            f"warmup_epochs is {settings.warmup_epochs} but there are only {settings.epochs} "
            "epochs; the selection would never be used."
        )
    if settings.guard and settings.held_out == 0:
        raise InputError(
            "held_out must be above 0 with the guard: it compares networks on these samples. "
            "Pass guard=False for the bare procedure."
        )
    if settings.pretrain_epochs and settings.input != "images":
        raise InputError("pretrain_epochs is for images; embeddings are learned already.")
    if len(settings.mean) != len(settings.std):
        raise InputError(f"mean has {len(settings.mean)} channels but std has {len(settings.std)}.")
    if settings.select_on == "referees" and settings.selector != "default":
        raise InputError(
            f"select_on='referees' needs selector='default', got {settings.selector!r}. Pass "
            "select_on='network', the paper's way."
        )
    if settings.input == "images" and settings.select_on == "inputs":
        raise InputError(
            "select_on='inputs' is for embeddings; images are judged by the network's features."
        )


def make_selector(settings: TrainSettings, epoch: int = 0) -> AnySelector:
    """Return the selector that `settings` asks for; an unknown parameter is named.

    Its pieces, halves and random knockoffs are those of `epoch`: what is wrongly kept by the
    chance of one split is not kept in all epochs.
    """
    # The user's own parameters come last, and win.
    parameters = {"random_state": settings.seed, "progress": False, **settings.selection}
    seed = parameters["random_state"]
    if epoch and isinstance(seed, int):
        # Whatever was drawn before: a resumed run has the same.
        parameters["random_state"] = int(np.random.SeedSequence([seed, epoch]).generate_state(1)[0])
    return from_preset(settings.selector, **parameters)


def referee_selector(settings: TrainSettings) -> ProbabilitySelector:
    """Return the selector that cuts what referees say: the same error rate, control and cut."""
    asked = make_selector(settings).get_params(deep=False)
    shared = {name: asked[name] for name in ProbabilitySelector().get_params() if name in asked}
    if shared.get("control") not in get_args(ControlName):
        raise InputError(
            f"select_on='referees' goes with control={', '.join(map(repr, get_args(ControlName)))}"
            f", not with {shared.get('control')!r}. Pass select_on='network' for the paper's way."
        )
    return ProbabilitySelector(**shared)
