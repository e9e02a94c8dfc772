"""The training cycle: selection and network learning that improve each other (Alg. 3).

`fit` trains a network; `FeatureStore`, `CleanSampler` and `SelectionCallback` add the selection to
a training loop of your own. Names are imported when first used: this module imports no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kspr.train.callback import CleanSampler, FeatureStore, SelectionCallback
    from kspr.train.fitting import Trained, fit, load_trained
    from kspr.train.settings import TrainSettings

__all__ = [
    "CleanSampler",
    "FeatureStore",
    "SelectionCallback",
    "TrainSettings",
    "Trained",
    "fit",
    "load_trained",
]

_HOMES = {
    "CleanSampler": "callback",
    "FeatureStore": "callback",
    "SelectionCallback": "callback",
    "TrainSettings": "settings",
    "Trained": "fitting",
    "fit": "fitting",
    "load_trained": "fitting",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'kspr.train' has no attribute {name!r}")
    try:
        return getattr(import_module(f"kspr.train.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        # Any other missing module is a fault that must show as it is.
        if (error.name or "").partition(".")[0] != "torch":
            raise
        from kspr.errors import MissingExtraError

        raise MissingExtraError("Training", "'knockoffs-spr[train]'") from error


def __dir__() -> list[str]:
    return __all__
