"""The network that a run trains, and what must stay the same for the run to go on."""

import hashlib
import json
from typing import Any

import numpy as np
from torch import nn

from kspr.errors import InputError
from kspr.train._random import seed_for
from kspr.train.backbones import Network, build_network, wrap_network
from kspr.train.settings import TrainSettings
from kspr.train.task import Task

__all__ = ["network_for", "signature_of"]


def network_for(task: Task, settings: TrainSettings, given: nn.Module | None) -> Network:
    """Return the user's own network, or the one that `settings` names."""
    shape, n_classes = task.inputs.shape, task.n_classes
    if given is None:
        return build_network(
            settings.network,
            n_classes,
            in_shape=shape,
            weights=settings.weights,
            feature_layer=settings.feature_layer,
            seed=seed_for(settings.seed, "network"),
        )
    if isinstance(given, Network):
        if given.n_classes != n_classes:
            raise InputError(
                f"The network has {given.n_classes} classes but there are {n_classes} in y."
            )
        return given
    layer = settings.feature_layer
    return wrap_network(given, n_classes, in_shape=shape, feature_layer=layer)


def signature_of(task: Task, settings: TrainSettings, network: nn.Module) -> dict[str, Any]:
    """Return what must be the same for a run to go on."""
    parts = [f"{name}{tuple(value.shape)}" for name, value in network.state_dict().items()]
    chosen = {k: v for k, v in settings.as_dict().items() if k != "device"}
    return {
        "architecture": f"{type(network).__name__} {_digest(' '.join(parts).encode())}",
        "rows": len(task.inputs),
        "shape": list(task.inputs.shape),
        "classes": task.classes.tolist(),
        "labels": _digest(np.ascontiguousarray(task.label.numpy()).tobytes()),
        **{name: json.dumps(value) for name, value in chosen.items()},
    }


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
