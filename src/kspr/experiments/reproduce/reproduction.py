"""What a run of a recipe found: a value that can be stored, drawn and held against the paper."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

from kspr._files import read_json
from kspr.errors import InputError
from kspr.experiments.reproduce.recipes import load_recipe

__all__ = ["Cell", "Estimate", "Reproduction", "read_reproduction"]


@dataclass(frozen=True)
class Cell:
    """One variant on one data set with one noise and one seed."""

    data: str
    noise: str
    variant: str
    seed: int
    values: Mapping[str, Any]
    seconds: float
    when: str
    source: str
    """Digest of the code that computed it."""
    fingerprint: str


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds."""

    mean: float
    spread: float | None
    """Its standard error; None for a single seed. For q, the standard deviation over cells."""
    seeds: int


@dataclass(frozen=True)
class Reproduction:
    """All cells of a recipe at a scale, and how they came about."""

    recipe: str
    scale: str
    command: tuple[str, ...]
    machine: Mapping[str, Any]
    data: Mapping[str, str]
    """The paper's name of a data set, and what stands for it here."""
    lacking: Mapping[str, str]
    """Data sets that could not be had, and why."""
    cells: tuple[Cell, ...]

    @property
    def seeds(self) -> int:
        """How many seeds were run."""
        return len({cell.seed for cell in self.cells})

    @property
    def seconds(self) -> float:
        """The time that the cells took, one after the other."""
        return sum(cell.seconds for cell in self.cells)

    def of(self, data: str | None, noise: str, variant: str) -> list[Cell]:
        """Return the cells of a variant, one per seed; of the first data set for None."""
        run = load_recipe(self.recipe).variants[variant].of or variant
        name = data if data is not None else next(iter(self.data), None)
        return [
            cell
            for cell in self.cells
            if (cell.data, cell.noise, cell.variant) == (name, noise, run)
        ]

    def estimate(self, data: str | None, noise: str, variant: str, measure: str) -> Estimate | None:
        """Return the mean of a measure over seeds; None where it was not measured."""
        read = load_recipe(self.recipe).variants[variant].reads.get(measure, measure)
        cells = self.of(data, noise, variant)
        found = [cell.values[read] for cell in cells if cell.values.get(read) is not None]
        if not found:
            return None
        n = len(found)
        spread = f"{read}_spread"
        spreads = [c.values[spread] for c in cells if c.values.get(spread) is not None]
        if spreads:
            return Estimate(float(np.mean(found)), float(np.mean(spreads)), n)
        error = float(np.std(found, ddof=1)) / sqrt(n) if n > 1 else None
        return Estimate(float(np.mean(found)), error, n)


def read_reproduction(path: Path) -> Reproduction:
    """Return the result that `reproduce` has kept at `path`."""
    found = read_json(path)
    if found is None:
        raise InputError(f"{path} holds no result of kspr reproduce.")
    cells = tuple(Cell(**cell) for cell in found.pop("cells"))
    return Reproduction(cells=cells, **{**found, "command": tuple(found["command"])})
