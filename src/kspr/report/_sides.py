"""Rows that went from one side to the other between two selections of a training."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from kspr.report._cards import Card, Contents, judge
from kspr.report.training_run import TrainingRun

__all__ = ["Restless", "Sides", "restless_rows", "sides_by_epoch"]

MOST_RESTLESS = 24


@dataclass(frozen=True)
class Sides:
    """What one selection changed against the one before it."""

    epoch: int
    kept: int
    left: int
    """Rows that the selection before kept, and this one does not."""
    joined: int
    """Rows that this selection keeps, and the one before did not."""


@dataclass(frozen=True)
class Restless:
    """Rows that changed sides most often."""

    n: int
    """Rows that changed sides at least once."""
    least: int
    """How often each of the shown rows changed sides, at least."""
    most: int
    cards: list[Card]


def sides_by_epoch(sides: Mapping[int, np.ndarray]) -> list[Sides]:
    """Return what each selection but the first changed.

    >>> sides_by_epoch({1: np.array([True, True]), 3: np.array([True, False])})
    [Sides(epoch=3, kept=1, left=1, joined=0)]
    """
    epochs = sorted(sides)
    return [
        Sides(
            epoch,
            int(sides[epoch].sum()),
            int((sides[last] & ~sides[epoch]).sum()),
            int((~sides[last] & sides[epoch]).sum()),
        )
        for last, epoch in pairwise(epochs)
    ]


def restless_rows(run: TrainingRun, contents: Contents) -> Restless | None:
    """Return the rows that changed sides most often; None if none did, or no row is at hand."""
    if len(run.sides) < 2 or run.after is None:
        return None
    masks = np.stack([run.sides[epoch] for epoch in sorted(run.sides)])
    times = np.sum(masks[1:] != masks[:-1], axis=0)
    changed = np.flatnonzero(times)
    if len(changed) == 0 or len(run.after.selection) != len(times):
        return None
    # Equal counts: the row that looks worst in the last selection comes first.
    order = np.lexsort((-run.after.selection.suspicion[changed], -times[changed]))
    rows = changed[order][:MOST_RESTLESS]
    cards = judge(run.after.selection, rows, run.after.row_id, None).cards(contents, rows)
    return Restless(len(changed), int(times[rows].min()), int(times[rows].max()), cards)
