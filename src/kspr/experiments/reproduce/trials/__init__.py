"""What one cell of a recipe computes: a function from a `Job` to named values, one file a kind."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from kspr.errors import InputError
from kspr.experiments.reproduce.trials.trial import Job

__all__ = ["KINDS", "TIMED", "Job", "compute", "module_of"]

KINDS = ("examples", "path", "select", "theory", "time", "train")
"""Each is a module of this package with a function ``run``."""
TIMED = ("time",)
"""Kinds that measure seconds: they get the machine for themselves, and all its threads."""


def compute(kind: str, job: Job) -> Mapping[str, Any]:
    """Return what a cell of `kind` finds, as JSON can hold it."""
    # Loaded when asked for: only one of them needs torch.
    run: Callable[[Job], Mapping[str, Any]] = import_module(module_of(kind)).run
    return {name: plain(value) for name, value in run(job).items()}


def module_of(kind: str) -> str:
    """Return the name of the module that computes cells of `kind`."""
    if kind not in KINDS:
        raise InputError(f"There is no kind of cell {kind!r}; there are {', '.join(KINDS)}.")
    return f"{__name__}.{kind}"


def plain(value: Any) -> Any:
    """Return `value` as JSON can hold it, to six digits: a number that is none becomes None."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if abs(value) < float("inf") else None
    return value
