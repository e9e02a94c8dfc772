"""The input and the output of a control."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kspr.core.coded import class_sizes
from kspr.core.penalties import Penalty
from kspr.selectors._passes import AllClasses, Verdicts, small_codes

if TYPE_CHECKING:
    from kspr.selectors.controls.noise_estimate import NoiseEstimate

__all__ = [
    "Control",
    "Decision",
    "Question",
    "cut_group_table",
    "only_group",
    "whole_cut_groups",
]


@dataclass(frozen=True)
class Question:
    """The input of a control: results for all samples, and how to cut them."""

    codes: np.ndarray
    classes: np.ndarray
    verdicts: Verdicts
    penalty: Penalty
    pooled: bool
    factor: np.ndarray  # of Theorem 2, piece by piece; ones elsewhere
    remove_floor: bool
    votes: np.ndarray | None = None  # shares of labels among each sample's neighbours
    neighbours: int = 0  # how many these are
    graded: bool = False  # whether there are too many rows to be sorted: more than are fitted

    @property
    def sizes(self) -> np.ndarray:
        """Number of samples that have each label."""
        return class_sizes(self.codes, len(self.classes))

    @property
    def all_classes(self) -> AllClasses:
        """What the fit says of every class."""
        found = self.verdicts.all_classes
        assert found is not None  # noqa: S101 - only controls that asked for it look here
        return found


@dataclass(frozen=True)
class Decision:
    """The output of a control: the smallest level that keeps each sample, and the cut groups."""

    q_value: Any  # an array, or `coded` levels
    statistic: Any  # an array, or `doubts`
    cut_group: np.ndarray
    table: np.ndarray  # (piece, half, class) of every cut group
    suggested: np.ndarray
    noise: "NoiseEstimate | None" = None
    suggestion_probability: np.ndarray | None = None


Control = Callable[[Question], Decision]
"""Return the smallest level at which each sample is kept."""


def whole_cut_groups(question: Question) -> tuple[np.ndarray, np.ndarray]:
    """Return cut groups across pieces and halves: one per class, or one for all."""
    n, n_classes = len(question.codes), len(question.classes)
    cut_group = only_group(n) if question.pooled else small_codes(question.codes, n_classes)
    return cut_group, cut_group_table(n_classes, pooled=question.pooled)


def only_group(n_rows: int) -> np.ndarray:
    """Return the cut group of rows that are all in one: zeros that take no memory."""
    return np.broadcast_to(np.zeros(1, dtype=np.uint8), (n_rows,))


def cut_group_table(n_classes: int, *, pooled: bool) -> np.ndarray:
    """Return piece, half and class of cut groups across pieces and halves."""
    # Estimates from all halves and pieces together give cut-offs for all of them together.
    groups = np.array([-1]) if pooled else np.arange(n_classes)
    return np.stack([np.zeros_like(groups), np.zeros_like(groups), groups], axis=1)
