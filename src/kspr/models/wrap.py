"""Turn any module into a `Network`: a hook records its features during the forward pass."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from kspr.errors import InputError
from kspr.models.network import (
    BodyNetwork,
    Network,
    NetworkRequest,
    Outputs,
    check_shape,
    evaluating,
)
from kspr.models.weights import fill_body, first_line

__all__ = [
    "assemble",
    "last_linear",
    "wrap_network",
]


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
    check_shape(in_shape)
    catch_input = feature_layer is None
    layer = last_linear(module, in_shape) if feature_layer is None else feature_layer
    if layer not in dict(module.named_modules()):
        raise InputError(
            f"feature_layer {layer!r} is no part of the module. Choose from "
            f"{_names(module)}, as named_modules() gives them."
        )
    # The number of features is known only after the run below.
    network = _Wrapped(module, layer, catch_input=catch_input, n_features=0, n_classes=n_classes)
    outputs = _probe(network, module, in_shape)
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
    hooks = [
        # name=name binds it now; a closure would see the last name only.
        part.register_forward_hook(lambda *_, name=name: ran.append(name))
        for name, part in module.named_modules()
        if isinstance(part, nn.Linear)
    ]
    try:
        _probe(module, module, in_shape)
    finally:
        for hook in hooks:
            hook.remove()
    if not ran:
        raise InputError(
            "The module has no linear layer to take features before; name one as feature_layer: "
            f"{_names(module)}."
        )
    return ran[-1]


class _Wrapped(Network):
    def __init__(
        self, module: nn.Module, layer: str, *, catch_input: bool, n_features: int, n_classes: int
    ) -> None:
        super().__init__(n_features, n_classes)
        self.module = module
        self._layer, self._catch_input = layer, catch_input

    def forward(self, x: Tensor) -> Outputs:
        with self._caught() as caught:
            logits = _logits(self.module(x))
        if not caught:
            raise InputError(f"feature_layer {self._layer!r} did not run; name one that does.")
        # A layer may run several times; its last run is the nearest to the logits.
        return Outputs(_rows(caught[-1]), logits)

    @contextmanager
    def _caught(self) -> Iterator[list[Tensor]]:
        """Record the input or output of the layer while the block runs."""
        # The hook is removed at once: a copy of the network would copy it too.
        caught: list[Tensor] = []
        part = self.module.get_submodule(self._layer)

        def catch(_: nn.Module, inputs: Any, output: Any) -> None:
            caught.append(inputs[0] if self._catch_input else output)

        hook = part.register_forward_hook(catch)
        try:
            yield caught
        finally:
            hook.remove()


def _probe(run: nn.Module, module: nn.Module, in_shape: tuple[int, ...]) -> Any:
    """Run two blank samples on the module's device, in evaluation mode."""
    # A module without parameters is run on the CPU in float32.
    like = next(module.parameters(), torch.empty(0))
    blank = torch.zeros((2, *in_shape), dtype=like.dtype, device=like.device)
    try:
        with evaluating(run):
            return run(blank)
    except InputError:
        raise
    except (
        Exception
    ) as error:  # modules raise anything; all of it means that the shape does not fit
        raise InputError(
            f"The module cannot take samples of in_shape={tuple(in_shape)}: {first_line(error)}"
        ) from error


def _logits(result: Any) -> Tensor:
    found = getattr(result, "logits", result)
    found = found[0] if isinstance(found, tuple | list) else found
    if not isinstance(found, Tensor):
        raise InputError(
            "The module must return logits, a tuple that starts with them, or an object with "
            f"logits: got {type(result).__name__}."
        )
    return found


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


def _names(module: nn.Module, most: int = 8) -> str:
    names = [name for name, _ in module.named_modules() if name]
    return ", ".join(names[-most:])


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
    if request.feature_layer is None:
        return network
    return wrap_network(
        network,
        request.n_classes,
        in_shape=request.in_shape,
        feature_layer=request.feature_layer,
    )
