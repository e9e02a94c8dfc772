"""What a training run is told: one frozen value, from a preset and the changes to it."""

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.resources import files
from typing import Any, Literal, Self

from kspr.errors import InputError
from kspr.selectors.validation import check_choice, check_count

__all__ = ["PRESETS", "TrainSettings"]

PRESETS = ("cpu", "cifar10", "cifar100", "clothing1m", "webvision")
_TABLES = ("selection", "pretrain")


@dataclass(frozen=True)
class TrainSettings:
    """How a network is trained, and how its data is selected meanwhile.

    ``TrainSettings.from_preset("cpu", epochs=30)`` is the usual way to make one; the plain
    constructor gives the preset ``cpu``. Every value is checked when the object is made.
    """

    input: Literal["embeddings", "images"] = "embeddings"
    """Train a head on frozen features, or the whole network on images."""
    network: str = "mlp"
    """A name that `build_network` knows."""
    weights: str | None = None
    """A local file with the backbone's weights."""
    feature_layer: str | None = None
    """Module whose output is the features; None for the one before the classifier."""
    image_size: int | None = None
    """Pixels to which images are scaled; None for their own size, which must be one."""
    epochs: int = 15
    warmup_epochs: int = 1
    """Epochs on the labels as they are, before a selection is used."""
    pretrain_epochs: int = 0
    """Epochs of SimSiam before everything else; for images."""
    pretrain: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of `SimSiamSettings`."""
    batch_size: int = 128
    learning_rate: float = 0.05
    momentum: float = 0.9
    weight_decay: float = 5e-4
    mix_probability: float = 1.0
    """Alg. 3's p: the chance that a batch is mixed with rejected samples."""
    mix_alpha: float = 0.5
    """The mixing weight is drawn from Beta(alpha, alpha)."""
    temperature: float = 0.5
    """Below 1, pseudo-labels are sharpened."""
    confidence: float = 0.0
    """Rejected samples whose pseudo-label is less sure than this are left out."""
    ema_decay: float = 0.999
    select_every: int = 1
    """Epochs from one selection to the next; 0 selects once, before training."""
    select_on: Literal["network", "inputs"] = "network"
    """Features that are judged: the network's, or the embeddings it is trained on."""
    selector: Literal["default", "paper", "spr"] = "default"
    """`KnockoffsSPR()`, `KnockoffsSPR.paper()` or `SPR()`."""
    selection: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the selector."""
    guard: bool = True
    """Use a selection only when it is healthy, and hand over the better of two networks. False
    is the paper's bare procedure."""
    held_out: float = 0.05
    """Share of the samples that the guard keeps from training, to compare networks on."""
    padding: int = 4
    """Pixels around an image before it is cropped again; 0 for no crop."""
    flip: bool = True
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    std: tuple[float, ...] = (0.25, 0.25, 0.25)
    precision: Literal["float32", "bfloat16"] = "float32"
    channels_last: bool = False
    deterministic: bool = False
    """Refuse operations whose result may differ from run to run."""
    device: str = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("mean", "std"):
            object.__setattr__(self, name, tuple(float(v) for v in getattr(self, name)))
        for name in _TABLES:
            object.__setattr__(self, name, dict(getattr(self, name)))
        _check(self)

    @classmethod
    def from_preset(cls, name: str, **changes: Any) -> Self:
        """Return the settings of the preset `name`, with any of them changed.

        Changes of `selection` and `pretrain` are laid over the preset's; another `selector` starts
        from its own defaults.

        >>> TrainSettings.from_preset("cifar10").epochs
        180
        """
        check_choice("preset", name, PRESETS)
        text = (files("kspr.train") / "presets" / f"{name}.toml").read_text(encoding="utf-8")
        return cls()._changed(tomllib.loads(text))._changed(changes)

    def changed(self, **changes: Any) -> Self:
        """Return these settings with some of them changed; tables are laid over."""
        return self._changed(changes)

    def _changed(self, changes: Mapping[str, Any]) -> Self:
        known = {entry.name for entry in fields(self)}
        for name in changes:
            if name not in known:
                raise InputError(
                    f"{name!r} is no setting of a run; there are {', '.join(sorted(known))}."
                )
        tables = {name: {**getattr(self, name), **changes.get(name, {})} for name in _TABLES}
        if changes.get("selector", self.selector) != self.selector:
            # What one selector was told means little to another, or nothing: SPR has no q.
            tables["selection"] = dict(changes.get("selection", {}))
        return replace(self, **{**changes, **tables})

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as JSON can hold them."""
        return {**asdict(self), "mean": list(self.mean), "std": list(self.std)}


def _check(settings: TrainSettings) -> None:
    check_choice("input", settings.input, ("embeddings", "images"))
    check_choice("select_on", settings.select_on, ("network", "inputs"))
    check_choice("selector", settings.selector, ("default", "paper", "spr"))
    check_choice("precision", settings.precision, ("float32", "bfloat16"))
    for name, least in _COUNTS.items():
        check_count(name, getattr(settings, name), least)
    for name, (low, high) in _RANGES.items():
        _check_range(name, getattr(settings, name), low, high)
    for name in ("learning_rate", "mix_alpha", "temperature"):
        if not getattr(settings, name) > 0:
            raise InputError(f"{name} must be above 0, got {getattr(settings, name)!r}.")
    _check_together(settings)


_COUNTS = {
    "epochs": 1,
    "warmup_epochs": 0,
    "pretrain_epochs": 0,
    "batch_size": 2,
    "select_every": 0,
    "padding": 0,
    "seed": 0,
}


_RANGES = {
    "momentum": (0.0, 1.0),
    "mix_probability": (0.0, 1.0),
    "confidence": (0.0, 1.0),
    "ema_decay": (0.0, 1.0),
    "held_out": (0.0, 0.5),
    "weight_decay": (0.0, float("inf")),
}


def _check_range(name: str, value: Any, least: float, most: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        raise InputError(f"{name} must be a number from {least:g} to {most:g}, got {value!r}.")


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
    if settings.input == "images" and settings.select_on == "inputs":
        raise InputError(
            "select_on='inputs' is for embeddings; images are judged by the network's features."
        )
