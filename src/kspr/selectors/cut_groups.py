"""What is cut together, and what a cut says of it."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np

from kspr.core.cutoffs import best_half, first_level

if TYPE_CHECKING:
    from kspr.selectors.selection import Selection

__all__ = ["Cells", "cell_columns", "cut_cells", "uncut", "with_fallback"]


@dataclass(frozen=True, eq=False)
class Cells:
    """One entry per cell: what was cut together, and what the cut says of it.

    A cell is a class, or all classes for a pooled cut; under the paper's controls it is that in
    one half of a piece. Where halves or pieces play no part they are 0.
    """

    piece: np.ndarray
    half: np.ndarray
    class_code: np.ndarray
    """Position in `Selection.classes`; -1 for a pooled cell."""
    n: np.ndarray
    n_kept: np.ndarray
    q_asked: np.ndarray
    q_reached: np.ndarray
    """The level that the cut meets; nan where it meets none."""
    estimated_fsr: np.ndarray
    """The estimate at the cut-off; inf where nothing is kept at a level."""
    smallest_q: np.ndarray
    """The smallest level that this cell could reach at all."""
    cutoff: np.ndarray
    """Size of the statistic of the last sample that is kept."""
    status: np.ndarray
    """``controlled``, ``checked``, ``raised``, ``fallback``, ``empty``, or ``share``."""

    @property
    def levels_met(self) -> np.ndarray:
        """The levels of the cells that met one."""
        return np.asarray(self.q_reached[np.isfinite(self.q_reached)])

    def __len__(self) -> int:
        return len(self.n)


def uncut(table: np.ndarray, cell: np.ndarray) -> Cells:
    """Return the cells before anything is known of them but their size."""
    unknown = np.full(len(table), np.nan)
    n = np.bincount(cell, minlength=len(table))
    return Cells(
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


def cut_cells(
    selection: Selection, keep: np.ndarray, *, asked: float, level: np.ndarray, status: np.ndarray
) -> Cells:
    """Return what keeping `keep` says of each cell; `level` is nan where none was met."""
    cell, cells, q_value = selection.cell, selection.cells, selection.q_value
    assert q_value is not None  # noqa: S101 - only selections with levels are cut
    smallest = np.full(len(cells), np.inf)
    np.minimum.at(smallest, cell, q_value)
    met = keep & np.isfinite(q_value)
    estimate, cutoff = np.full(len(cells), -np.inf), np.zeros(len(cells))
    np.maximum.at(estimate, cell[met], q_value[met])
    np.maximum.at(cutoff, cell[met], np.abs(selection.statistic[met]))
    return replace(
        cells,
        n_kept=np.bincount(cell[keep], minlength=len(cells)),
        q_asked=np.full(len(cells), asked),
        q_reached=level,
        estimated_fsr=np.where(np.isfinite(estimate) & ~np.isnan(level), estimate, np.inf),
        smallest_q=smallest,
        cutoff=cutoff,
        status=status,
    )


def with_fallback(selection: Selection, levels: np.ndarray) -> tuple[np.ndarray, Cells]:
    """Apply the paper's rule: the first level that can be reached, else the better half."""
    cell, q_value = selection.cell, selection.q_value
    assert q_value is not None  # noqa: S101 - the paper's controls give every sample a level
    smallest = np.full(len(selection.cells), np.inf)
    np.minimum.at(smallest, cell, q_value)
    level = first_level(smallest, levels)
    fallback = np.isnan(level)
    keep = q_value <= np.where(fallback, -1.0, level)[cell]
    keep |= best_half(selection.statistic, cell, len(level)) & fallback[cell]
    status = np.where(fallback, "fallback", np.where(level > levels[0], "raised", "controlled"))
    return keep, cut_cells(selection, keep, asked=float(levels[0]), level=level, status=status)


def cell_columns(cells: Cells) -> dict[str, np.ndarray]:
    """Return the table of cells, column by column."""
    return {field.name: getattr(cells, field.name) for field in fields(cells)}
