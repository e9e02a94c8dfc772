"""Cut groups: the rows that are cut together, and the result of the cut."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from kspr.selectors.selection import Selection

__all__ = [
    "CutGroups",
    "cut_by_class",
    "cut_group_columns",
    "recut",
    "uncut",
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
    """Doubt of the last sample that is kept."""
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
    n = np.bincount(cut_group, minlength=len(table))
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


def cut_by_class(
    codes: np.ndarray, n_classes: int, *, pooled: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the cut group of each row and the table of cut groups: one per class, or one for all.

    Row k of the table is piece, half and class of cut group k.
    """
    if pooled:
        # Zeros that take no memory.
        return np.broadcast_to(np.zeros(1, dtype=np.uint8), codes.shape), np.array([[0, 0, -1]])
    # Estimates from all halves and pieces together give cut-offs for all of them together.
    groups = np.arange(n_classes)
    nowhere = np.zeros_like(groups)
    small = codes.astype(np.min_scalar_type(n_classes - 1), copy=False)
    return small, np.stack([nowhere, nowhere, groups], axis=1)


def recut(
    selection: Selection, keep: np.ndarray, *, asked: float, level: np.ndarray, status: np.ndarray
) -> CutGroups:
    """Return the cut groups of a selection in which the rows in `keep` are kept.

    `level` is the level of each cut group, nan where none was reached.
    """
    cut_group, n_groups = selection.cut_group, len(selection.cut_groups)
    q_value = selection.q_value
    assert q_value is not None  # noqa: S101 - only selections with levels are cut
    smallest = np.full(n_groups, np.inf)
    np.minimum.at(smallest, cut_group, q_value)
    # A fallback keeps rows that no level reaches: these say nothing of the estimate.
    met = keep & np.isfinite(q_value)
    estimate, cutoff = np.full(n_groups, -np.inf), np.zeros(n_groups)
    # `at`: plain indexing would keep a single row of each group.
    np.maximum.at(estimate, cut_group[met], q_value[met])
    np.maximum.at(cutoff, cut_group[met], selection.doubt[met])
    reached = np.isfinite(estimate) & ~np.isnan(level)
    return replace(
        selection.cut_groups,
        n_kept=np.bincount(cut_group[keep], minlength=n_groups),
        q_asked=np.full(n_groups, asked),
        q_reached=level,
        estimated_fsr=np.where(reached, estimate, np.inf),
        smallest_q=smallest,
        cutoff=cutoff,
        status=status,
    )


def cut_group_columns(cut_groups: CutGroups) -> dict[str, np.ndarray]:
    """Return the table of cut groups, column by column."""
    return {field.name: getattr(cut_groups, field.name) for field in fields(cut_groups)}
