"""What is computed in a trial: one function for each kind, from a `TrialSpec` to named values."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from kspr.errors import InputError
from kspr.experiments.reproduce.trials.trial import TrialSpec

__all__ = ["KINDS", "TIMED", "TrialSpec", "compute", "module_of", "plain"]

KINDS = {
    "examples": "selections",
    "method": "methods",
    "path": "pieces",
    "select": "selections",
    "theory": "pieces",
    "time": "selections",
    "train": "training",
}
"""Kind of trial: the module of this package that has a function of that name."""
TIMED = ("time",)
"""Kinds that measure seconds: they run one at a time, with all threads of the machine."""


def compute(spec: TrialSpec) -> Mapping[str, Any]:
    """Run one trial; return its values, ready for JSON."""
    # Imported on demand: only `training` and `methods` need torch.
    function: Callable[[TrialSpec], Mapping[str, Any]]
    function = getattr(import_module(module_of(spec.kind)), spec.kind)
    return {name: plain(value) for name, value in function(spec).items()}


def module_of(kind: str) -> str:
    """Return the full name of the module that computes trials of `kind`."""
    if kind not in KINDS:
        raise InputError(f"There is no kind of trial {kind!r}; there are {', '.join(KINDS)}.")
    return f"{__name__}.{KINDS[kind]}"


def plain(value: Any) -> Any:
    """Return `value` as JSON can hold it: floats to six digits, infinite ones and nan as None."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, float):
        # The comparison is False for nan, too.
        return float(f"{value:.6g}") if abs(value) < float("inf") else None
    return value
