"""Cut groups: the rows that are cut together, and the result of the cut."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from kspr.core.coded import class_sizes, row_ranges, rows_of
from kspr.core.cutoffs import best_half, first_level

if TYPE_CHECKING:
    from kspr.selectors.selection import Selection

__all__ = [
    "CutGroups",
    "CutStats",
    "cut_group_columns",
    "cut_stats",
    "uncut",
    "with_fallback",
]


@dataclass(frozen=True, eq=False)
class CutGroups:
    """One entry per cut group: which rows were cut together, and the result of the cut.

    A cut group is a class, or all classes for a pooled cut; under the paper's controls it is
    that in one half of a piece. Where halves or pieces play no part they are 0.
    """

    piece: np.ndarray
    """Number of the piece."""
    half: np.ndarray
    """Half of the piece, 0 or 1."""
    class_code: np.ndarray
    """Position in `Selection.classes`; -1 for a pooled cut group."""
    n: np.ndarray
    """Number of samples."""
    n_kept: np.ndarray
    """Number of kept samples."""
    q_asked: np.ndarray
    """The level that was asked for; nan for SPR."""
    q_reached: np.ndarray
    """The level that the cut reaches; nan where it reaches none."""
    estimated_fsr: np.ndarray
    """Estimated share of wrong labels at the cut-off; inf where nothing is kept at a level."""
    smallest_q: np.ndarray
    """The smallest level that this cut group could reach at all."""
    cutoff: np.ndarray
    """Size of the statistic of the last sample that is kept."""
    status: np.ndarray
    """``assumed``, ``checked``, ``estimated``, ``raised``, ``fallback``, ``empty``, or
    ``share``."""

    @property
    def levels_met(self) -> np.ndarray:
        """The levels of the cut groups that met one."""
        return np.asarray(self.q_reached[np.isfinite(self.q_reached)])

    def __len__(self) -> int:
        return len(self.n)


def uncut(table: np.ndarray, cut_group: np.ndarray) -> CutGroups:
    """Return the cut groups before they are cut: only their sizes are known."""
    # Shared by the fields below: none of them is ever written into.
    unknown = np.full(len(table), np.nan)
    n = class_sizes(cut_group, len(table))
    return CutGroups(
        piece=table[:, 0],
        half=table[:, 1],
        class_code=table[:, 2],
        n=n,
        n_kept=np.zeros_like(n),
        q_asked=unknown,
        q_reached=unknown,
        estimated_fsr=unknown,
        smallest_q=unknown,
        cutoff=unknown,
        status=np.full(len(table), "empty"),
    )


@dataclass(frozen=True)
class CutStats:
    """What the rows of each cut group come to, given which are kept; parts of the rows merge."""

    n: np.ndarray
    n_kept: np.ndarray
    smallest: np.ndarray
    """Smallest level of any row; inf without rows."""
    estimate: np.ndarray
    """Largest level of a kept row; -inf without any that has one."""
    cutoff: np.ndarray
    """Largest size of the statistic of these rows."""

    @classmethod
    def of(
        cls,
        cut_group: np.ndarray,
        q_value: np.ndarray,
        statistic: np.ndarray,
        keep: np.ndarray,
        n_groups: int,
    ) -> CutStats:
        """Return the numbers of some rows."""
        smallest = np.full(n_groups, np.inf)
        np.minimum.at(smallest, cut_group, q_value)
        # A fallback keeps rows that no level reaches: these say nothing of the estimate.
        met = keep & np.isfinite(q_value)
        estimate, cutoff = np.full(n_groups, -np.inf), np.zeros(n_groups)
        # `at`: plain indexing would keep a single row of each group.
        np.maximum.at(estimate, cut_group[met], q_value[met])
        np.maximum.at(cutoff, cut_group[met], np.abs(statistic[met]))
        n, n_kept = (np.bincount(rows, minlength=n_groups) for rows in (cut_group, cut_group[keep]))
        return cls(n, n_kept, smallest, estimate, cutoff)

    def merge(self, other: CutStats) -> CutStats:
        """Return the numbers of the rows of both."""
        return CutStats(
            self.n + other.n,
            self.n_kept + other.n_kept,
            np.minimum(self.smallest, other.smallest),
            np.maximum(self.estimate, other.estimate),
            np.maximum(self.cutoff, other.cutoff),
        )

    def applied(
        self, cut_groups: CutGroups, *, asked: float, level: np.ndarray, status: np.ndarray
    ) -> CutGroups:
        """Return the cut groups with this cut; `level` is nan where none was reached."""
        met = np.isfinite(self.estimate) & ~np.isnan(level)
        return replace(
            cut_groups,
            n=self.n,
            n_kept=self.n_kept,
            q_asked=np.full(len(cut_groups), asked),
            q_reached=level,
            estimated_fsr=np.where(met, self.estimate, np.inf),
            smallest_q=self.smallest,
            cutoff=self.cutoff,
            status=status,
        )


def cut_stats(selection: Selection, keep: np.ndarray) -> CutStats:
    """Return what the rows of each cut group come to, if those in `keep` are kept."""
    # The first part has no rows, so that a selection without any is no special case.
    parts = [slice(0, 0), *row_ranges(len(keep))]
    found = (
        CutStats.of(
            selection.cut_group[rows],
            rows_of(selection, "q_value", rows),
            rows_of(selection, "statistic", rows),
            keep[rows],
            len(selection.cut_groups),
        )
        for rows in parts
    )
    return reduce(CutStats.merge, found)


def with_fallback(selection: Selection, levels: np.ndarray) -> tuple[np.ndarray, CutGroups]:
    """Apply the paper's rule: the first level that can be reached, else the better half."""
    cut_group, q_value = selection.cut_group, selection.q_value
    assert q_value is not None  # noqa: S101 - the paper's controls give every sample a level
    smallest = np.full(len(selection.cut_groups), np.inf)
    np.minimum.at(smallest, cut_group, q_value)
    level = first_level(smallest, levels)
    fallback = np.isnan(level)
    # No q-value is below 0: a group that falls back keeps nothing by its level.
    keep = q_value <= np.where(fallback, -1.0, level)[cut_group]
    keep |= best_half(selection.statistic, cut_group, len(level)) & fallback[cut_group]
    status = np.where(fallback, "fallback", np.where(level > levels[0], "raised", "assumed"))
    stats = cut_stats(selection, keep)
    return keep, stats.applied(
        selection.cut_groups, asked=float(levels[0]), level=level, status=status
    )


def cut_group_columns(cut_groups: CutGroups) -> dict[str, np.ndarray]:
    """Return the table of cut groups, column by column."""
    return {field.name: getattr(cut_groups, field.name) for field in fields(cut_groups)}
