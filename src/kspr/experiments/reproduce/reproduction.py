"""The result of a recipe: its trials, their means over seeds, and the file they are stored in."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

from kspr._files import read_json
from kspr.errors import InputError
from kspr.experiments.reproduce.recipes import load_recipe

__all__ = ["Estimate", "Reproduction", "Trial", "read_reproduction"]


@dataclass(frozen=True)
class Trial:
    """One variant on one data set with one noise and one seed, after it was run."""

    data: str
    noise: str
    variant: str
    seed: int
    values: Mapping[str, Any]
    seconds: float
    when: str
    source: str
    """Digest of the code that computed the values."""
    fingerprint: str
    """Name under which the trial is stored; another description or code has another one."""


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds."""

    mean: float
    spread: float | None
    """Its standard error; None for a single seed. For q, the standard deviation over cut groups."""
    seeds: int


@dataclass(frozen=True)
class Reproduction:
    """All trials of a recipe at a scale, with the command, machine and data behind them."""

    recipe: str
    scale: str
    command: tuple[str, ...]
    machine: Mapping[str, Any]
    data: Mapping[str, str]
    """The paper's name of a data set, and what was used in its place."""
    lacking: Mapping[str, str]
    """Data sets that were not on this machine, with the reason."""
    trials: tuple[Trial, ...]

    @property
    def seeds(self) -> int:
        """How many seeds were run."""
        return len({trial.seed for trial in self.trials})

    @property
    def seconds(self) -> float:
        """Seconds of all trials together."""
        return sum(trial.seconds for trial in self.trials)

    def of(self, data: str | None, noise: str, variant: str) -> list[Trial]:
        """Return the trials of a variant, one per seed; of the first data set if `data` is None."""
        run = load_recipe(self.recipe).variants[variant].of or variant
        name = data if data is not None else next(iter(self.data), None)
        return [
            trial
            for trial in self.trials
            if (trial.data, trial.noise, trial.variant) == (name, noise, run)
        ]

    def estimate(self, data: str | None, noise: str, variant: str, measure: str) -> Estimate | None:
        """Return the mean of a measure over seeds; None where it was not measured."""
        read = load_recipe(self.recipe).variants[variant].reads.get(measure, measure)
        trials = self.of(data, noise, variant)
        found = _present(trials, read)
        if not found:
            return None
        n = len(found)
        spreads = _present(trials, f"{read}_spread")
        # The paper gives the spread of q over pieces, not over seeds.
        if spreads:
            return Estimate(float(np.mean(found)), float(np.mean(spreads)), n)
        # ddof=1: the seeds are a sample, and few.
        error = float(np.std(found, ddof=1)) / sqrt(n) if n > 1 else None
        return Estimate(float(np.mean(found)), error, n)


def _present(trials: list[Trial], name: str) -> list[float]:
    """Return a value of all trials that have it."""
    return [trial.values[name] for trial in trials if trial.values.get(name) is not None]


def read_reproduction(path: Path) -> Reproduction:
    """Return the result that `reproduce` has stored at `path`."""
    found = read_json(path)
    if found is None:
        raise InputError(f"{path} holds no result of kspr reproduce.")
    trials = tuple(Trial(**trial) for trial in found.pop("trials"))
    return Reproduction(trials=trials, **{**found, "command": tuple(found["command"])})
