"""The result of a recipe: its trials, their means over seeds, and measures that follow from them.

The result is stored as JSON by `running.reproduce`, and read back by `read_reproduction`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

from kspr._files import read_json
from kspr.errors import InputError
from kspr.experiments.reproduce.recipes import Recipe, load_recipe

_COMMITS_SINCE = "2026-11-18T19"
"""Trials from before this time carry no commit, wherever they were run."""
_PAPERS = {
    "CIFAR-10": "cifar10",
    "CIFAR-100": "cifar100",
    "Clothing1M": "clothing1m",
    "WebVision": "webvision",
}
"""The paper's data sets, and their names here."""


@dataclass(frozen=True)
class Trial:
    """One variant on one data set with one noise and one seed, after it was run."""

    data: str
    noise: str
    variant: str
    seed: int
    description: Mapping[str, Any]
    """All that the recipe sets for the trial: it is stored under this."""
    values: Mapping[str, Any]
    seconds: float
    when: str
    version: str
    """Of this package, as it computed the values."""
    commit: str | None
    """Of the sources then; None for an installed package, and before commits were stored."""
    machine: str

    @property
    def code(self) -> str:
        """Version and commit, in a few words."""
        if self.commit is not None:
            return f"kspr {self.version} of commit {self.commit}"
        unknown = ", before commits were stored" if self.when < _COMMITS_SINCE else ""
        return f"kspr {self.version}{unknown}"


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
    planned: int | None = None
    """Trials of the whole recipe at this scale; None in results of before parts could be run."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Trials that could not be run, with the reason."""

    @property
    def definition(self) -> Recipe:
        """The recipe."""
        return load_recipe(self.recipe)

    @property
    def noises(self) -> tuple[str, ...]:
        """Noises that were run."""
        return self.definition.scale(self.scale).noises

    @property
    def variants(self) -> tuple[str, ...]:
        """Variants that were run, or are read from others."""
        return self.definition.scale(self.scale).variants

    @property
    def seeds(self) -> int:
        """How many seeds were run."""
        return len({trial.seed for trial in self.trials})

    @property
    def seconds(self) -> float:
        """Seconds of all trials together."""
        return sum(trial.seconds for trial in self.trials)

    @property
    def older(self) -> tuple[Trial, ...]:
        """Trials of another version or commit than the one that wrote this result."""
        now = self.machine["versions"]["knockoffs-spr"], self.machine["commit"]
        return tuple(trial for trial in self.trials if (trial.version, trial.commit) != now)

    def is_papers(self, data: str) -> bool:
        """Return whether the data that the paper calls `data` are used, and not a stand-in."""
        used = self.definition.scale(self.scale).data[data].get("dataset", "")
        return data not in _PAPERS or used.removesuffix("-mini") == _PAPERS[data]

    def label_of(self, data: str) -> str:
        """Return what stands at the rows of a data set: what they hold."""
        if data not in self.data or self.is_papers(data):
            return data
        return f"{self.data[data]}, in place of {data}"

    def of(self, data: str | None, noise: str, variant: str) -> list[Trial]:
        """Return the trials of a variant, one per seed; of the first data set if `data` is None."""
        run = self.definition.variants[variant].of or variant
        name = data if data is not None else next(iter(self.data), None)
        return [
            trial
            for trial in self.trials
            if (trial.data, trial.noise, trial.variant) == (name, noise, run)
        ]

    def estimate(self, data: str | None, noise: str, variant: str, measure: str) -> Estimate | None:
        """Return the mean of a measure over seeds; None where it was not measured."""
        chosen = self.definition.variants.get(variant)
        if chosen is None:
            return None
        read = chosen.reads.get(measure, measure)
        trials = self.of(data, noise, variant)
        values = _present(trials, read)
        if not values:
            return None
        n = len(values)
        spreads = _present(trials, f"{read}_spread")
        # The paper gives the spread of q over pieces, not over seeds.
        if spreads:
            return Estimate(float(np.mean(values)), float(np.mean(spreads)), n)
        # ddof=1: the seeds are a sample, and few.
        error = float(np.std(values, ddof=1)) / sqrt(n) if n > 1 else None
        return Estimate(float(np.mean(values)), error, n)


def _present(trials: list[Trial], name: str) -> list[float]:
    """Return a value of all trials that have it, stored or computed from what is stored."""
    values = [
        _COMPUTED[name](trial.values) if name in _COMPUTED else trial.values.get(name)
        for trial in trials
    ]
    return [value for value in values if value is not None]


def _with_fallback(values: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return mean and standard deviation of q over all cut groups.

    As in the authors' code, one that reaches no level and keeps its better half counts as 50 %.
    """
    share = values.get("fallback")
    if share is None:
        return None
    # Where all cut groups fell back, none has a level.
    mean, spread = values["q"] or 0.0, values["q_spread"] or 0.0
    every = (1 - share) * mean + share * 0.5
    square = (1 - share) * (spread**2 + mean**2) + share * 0.25
    return every, sqrt(max(square - every**2, 0.0))


def _over_q(values: Mapping[str, Any], *, spreads: float) -> list[float]:
    """Return by how much FSR exceeds q and `spreads` standard deviations of it, by epoch."""
    return [
        line["fsr"] - line["q_reached"] - spreads * line["q_spread"]
        for line in values["course"]
        if line["fsr"] is not None and line["q_reached"] is not None
    ]


def _wrong_first(values: Mapping[str, Any]) -> float:
    """Return how often a wrong label leaves zero at a larger penalty than a right one."""
    wrong = np.array(values["wrong"], dtype=bool)
    # A row that never leaves zero does so below the smallest penalty.
    entered = np.where(np.array(values["norms"]) > 0, values["lams"], 0.0).max(axis=1)
    first, second = entered[wrong][:, None], entered[~wrong]
    return float(np.mean((first > second) + 0.5 * (first == second)))


_COMPUTED: dict[str, Callable[[Mapping[str, Any]], float | None]] = {
    "q_all": lambda values: (_with_fallback(values) or (None,))[0],
    "q_all_spread": lambda values: (_with_fallback(values) or (None, None))[1],
    "over_q_most": lambda values: max(_over_q(values, spreads=1.0), default=None),
    "over_q_last": lambda values: next(reversed(_over_q(values, spreads=0.0)), None),
    "wrong_first": _wrong_first,
}
"""Measures that follow from stored ones."""


def read_reproduction(path: Path) -> Reproduction:
    """Return the result that `reproduce` has stored at `path`."""
    stored = read_json(path)
    if stored is None:
        raise InputError(f"{path} holds no result of kspr reproduce.")
    trials = tuple(Trial(**trial) for trial in stored.pop("trials"))
    return Reproduction(trials=trials, **{**stored, "command": tuple(stored["command"])})


def shown(value: Estimate | None, measure: str) -> str:
    """Return mean and spread as text: shares in percent, as in the paper."""
    if value is None:
        return "-"
    # All other measures are shares, which the paper prints in percent.
    factor, digits = (1, 2) if measure in ("seconds", "median") else (100, 1)
    text = f"{factor * value.mean:.{digits}f}"
    return text if value.spread is None else f"{text} ± {factor * value.spread:.{digits}f}"
