"""`Network`: features and logits in one pass; how any module becomes one, by a hook."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from kspr.errors import InputError
from kspr.models.weights import fill_body, first_line


class Outputs(NamedTuple):
    """Result of a forward pass, one row per sample."""

    features: Tensor
    """Shape (n, d)."""
    logits: Tensor
    """Shape (n, classes)."""


class Network(nn.Module, ABC):
    """A classifier whose ``forward`` returns `Outputs`."""

    def __init__(self, n_features: int, n_classes: int) -> None:
        super().__init__()
        self.n_features = n_features
        self.n_classes = n_classes

    @abstractmethod
    def forward(self, x: Tensor) -> Outputs:
        """Return the features and logits of a batch."""


class BodyNetwork(Network):
    """A body that returns features of shape (n, `n_features`), and a linear layer on them."""

    def __init__(self, body: nn.Module, n_features: int, n_classes: int) -> None:
        super().__init__(n_features, n_classes)
        self.body = body
        self.head = nn.Linear(n_features, n_classes)

    def forward(self, x: Tensor) -> Outputs:
        """Return the features and logits of a batch."""
        features = self.body(x)
        return Outputs(features, self.head(features))


@dataclass(frozen=True)
class NetworkRequest:
    """The arguments of one call of ``build_network``, checked."""

    name: str
    """Full name, such as ``resnet50`` or ``timm:vit_small_patch16_224``."""
    library_name: str
    """Part of the name after the colon; empty for networks of this package."""
    n_classes: int
    in_shape: tuple[int, ...]
    """Shape of one sample: (channels, height, width), or (dimensions,)."""
    weights: str | Path | None = None
    """File of weights, ``"pretrained"``, or None for random initial weights."""
    feature_layer: str | None = None
    """Layer whose output is the features; None for the input of the classifier."""

    def __post_init__(self) -> None:
        if self.n_classes < 2:
            raise InputError(f"n_classes must be at least 2, got {self.n_classes}.")
        _check_shape(self.in_shape)


def _check_shape(in_shape: tuple[int, ...]) -> None:
    """Raise `InputError` unless `in_shape` can be the shape of one sample."""
    if not in_shape or any(size < 1 for size in in_shape):
        raise InputError(
            "in_shape must be the shape of one sample, such as (3, 32, 32) for images or (512,) "
            f"for vectors, got {tuple(in_shape)}."
        )


def image_channels(request: NetworkRequest, *, at_least: int = 1) -> int:
    """Return the number of channels of images; raise if samples are no images or too small."""
    if len(request.in_shape) != 3:
        raise InputError(
            f"{request.name} takes images, in_shape=(channels, height, width), got "
            f"{request.in_shape}. For vectors choose 'mlp'."
        )
    if min(request.in_shape[1:]) < at_least:
        raise InputError(
            f"{request.name} takes images of at least {at_least} x {at_least} pixels, got "
            f"in_shape={request.in_shape}. Scale them up, or choose 'cifar_resnet18'."
        )
    return request.in_shape[0]


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Put `module` in evaluation mode, without gradients, while the block runs."""
    # Each part gets its own mode back: users may have frozen the statistics of some layers.
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, mode in modes:
            part.training = mode


@contextmanager
def seeded(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """Seed torch's default generators while the block runs, then restore their state.

    Initial weights, and layers such as dropout, draw from these generators and from no other. The
    generator of the CPU is seeded; the one of `device` as well, if that is a GPU.
    """
    on_gpu = device is not None and device.type == "cuda"
    with torch.random.fork_rng(devices=[device] if on_gpu else []):
        # Not torch.manual_seed: it would change the generators of all GPUs, and only those listed
        # above are restored.
        torch.default_generator.manual_seed(seed)
        if on_gpu:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield


def assemble(
    body: nn.Module,
    n_features: int,
    request: NetworkRequest,
    *,
    published_heads: tuple[str, ...] = (),
) -> Network:
    """Return `body` with a linear classifier, its weights and features as `request` says."""
    network = BodyNetwork(body, n_features, request.n_classes)
    if request.weights is not None:
        fill_body(network, request.weights, published_heads)
    return network if request.feature_layer is None else wrapped(network, request)


def wrapped(module: nn.Module, request: NetworkRequest) -> Network:
    """Return `module` as the network that `request` asks for."""
    return wrap_network(
        module, request.n_classes, in_shape=request.in_shape, feature_layer=request.feature_layer
    )


def wrap_network(
    module: nn.Module,
    n_classes: int,
    *,
    in_shape: tuple[int, ...],
    feature_layer: str | None = None,
) -> Network:
    """Return `module` as a `Network`; the module is not copied.

    Parameters
    ----------
    module
        Returns logits, a tuple that starts with them, or an object with ``logits``.
    n_classes
        Number of logits per sample that `module` must return.
    in_shape
        Shape of one sample. Two blank samples are run to find the layer and its size.
    feature_layer
        Name, as in ``named_modules``, of the layer whose output is the features. None: the input
        of the last linear layer that runs. Maps are averaged over positions, tokens over the
        sequence.
    """
    _check_shape(in_shape)
    layer = last_linear(module, in_shape) if feature_layer is None else feature_layer
    if layer not in dict(module.named_modules()):
        raise InputError(
            f"feature_layer {layer!r} is no part of the module. Choose from "
            f"{_names(module)}, as named_modules() gives them."
        )
    network = _Wrapped(module, layer, n_classes, catch_input=feature_layer is None)
    outputs = _probe(network, in_shape)
    if outputs.logits.shape != (2, n_classes):
        raise InputError(
            f"The module must give {n_classes} logits per sample (n_classes), but two samples "
            f"gave an array of shape {tuple(outputs.logits.shape)}. Replace its last layer."
        )
    network.n_features = outputs.features.shape[1]
    return network


def last_linear(module: nn.Module, in_shape: tuple[int, ...]) -> str:
    """Return the name of the linear layer that runs last on a sample of `in_shape`."""
    # The layer that was registered last need not run last: auxiliary heads come anywhere.
    ran: list[str] = []
    with ExitStack() as hooks:
        for name, part in module.named_modules():
            if isinstance(part, nn.Linear):
                # name=name binds it now; a closure would see the last name only.
                note = part.register_forward_hook(lambda *_, name=name: ran.append(name))
                hooks.enter_context(note)
        _probe(module, in_shape)
    if not ran:
        raise InputError(
            "The module has no linear layer to take features before; name one as feature_layer: "
            f"{_names(module)}."
        )
    return ran[-1]


class _Wrapped(Network):
    def __init__(self, module: nn.Module, layer: str, n_classes: int, *, catch_input: bool) -> None:
        # The number of features is known once it has run.
        super().__init__(0, n_classes)
        self.module = module
        self._layer, self._catch_input = layer, catch_input

    def forward(self, x: Tensor) -> Outputs:
        caught: list[Tensor] = []

        def catch(_: nn.Module, inputs: Any, output: Any) -> None:
            caught.append(inputs[0] if self._catch_input else output)

        # For one pass: a copy of the network would copy the hook too.
        with self.module.get_submodule(self._layer).register_forward_hook(catch):
            logits = _logits(self.module(x))
        if not caught:
            raise InputError(f"feature_layer {self._layer!r} did not run; name one that does.")
        # A layer may run several times; its last run is the nearest to the logits.
        return Outputs(_rows(caught[-1]), logits)


def _probe(module: nn.Module, in_shape: tuple[int, ...]) -> Any:
    """Run two blank samples on the module's device, in evaluation mode."""
    # A module without parameters is run on the CPU in float32.
    like = next(module.parameters(), torch.empty(0))
    blank = torch.zeros((2, *in_shape), dtype=like.dtype, device=like.device)
    try:
        with evaluating(module):
            return module(blank)
    except InputError:
        raise
    # Modules raise anything; all of it means that the shape does not fit.
    except Exception as error:
        raise InputError(
            f"The module cannot take samples of in_shape={tuple(in_shape)}: {first_line(error)}"
        ) from error


def _logits(result: Any) -> Tensor:
    logits = getattr(result, "logits", result)
    logits = logits[0] if isinstance(logits, tuple | list) else logits
    if not isinstance(logits, Tensor):
        raise InputError(
            "The module must return logits, a tuple that starts with them, or an object with "
            f"logits: got {type(result).__name__}."
        )
    return logits


def _rows(features: Any) -> Tensor:
    """Return recorded features as rows of shape (n, d)."""
    if isinstance(features, tuple | list):
        features = features[0]
    if not isinstance(features, Tensor) or not 2 <= features.ndim <= 4:
        shape = tuple(getattr(features, "shape", ())) or type(features).__name__
        raise InputError(
            "feature_layer must give rows (n, d), tokens (n, t, d) or maps (n, d, h, w), got "
            f"{shape}."
        )
    # Positions are averaged: the selection needs one row per sample.
    if features.ndim == 4:
        return features.mean((2, 3))
    return features.mean(1) if features.ndim == 3 else features


def _names(module: nn.Module) -> str:
    names = [name for name, _ in module.named_modules() if name]
    return ", ".join(names[-8:])
