"""Every level at once: how much it keeps, and its estimated error rate."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kspr._text import text_table

if TYPE_CHECKING:
    from kspr.selectors.selection import Selection

__all__ = ["Curve", "at_best_f1", "trace_curve"]

Steps = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Levels, their cut groups, and how many samples each pair of these has: in the order of groups,
then of levels, no pair twice."""
_LEVEL_ENDS = (1e-6, 1 - 1e-6)
"""Range of levels that `Selection.at` takes; an estimate may lie on its border."""


@dataclass(frozen=True, eq=False, repr=False)
class Curve:
    """What each level keeps: one entry per level at which something changes, ascending."""

    q: np.ndarray
    """The levels."""
    n_kept: np.ndarray
    """How many samples each keeps."""
    share_kept: np.ndarray
    """The share of all samples that this is."""
    estimated_fsr: np.ndarray
    """Estimated share of wrong labels among all kept ones; at most `q`."""
    estimated_f1: np.ndarray | None = None
    """Estimated F1; None where the number of right labels is not estimated."""

    @property
    def best_f1_level(self) -> float | None:
        """The level with the greatest estimated F1; None where that is not known."""
        if self.estimated_f1 is None or not len(self):
            return None
        return float(self.q[self.estimated_f1.argmax()])

    def __len__(self) -> int:
        return len(self.q)

    def __repr__(self) -> str:
        # A session that ends a line with the curve shows the table, not ten thousand numbers.
        return str(self)

    def __str__(self) -> str:
        rows = []
        for q in (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5):
            last = int(np.searchsorted(self.q, q, side="right")) - 1
            if last < 0:
                rows.append([f"{q:g}", "0", f"{0:.1%}", "-"])
                continue
            kept, share = f"{self.n_kept[last]:,}", f"{self.share_kept[last]:.1%}"
            rows.append([f"{q:g}", kept, share, f"{self.estimated_fsr[last]:.3f}"])
        return text_table(("q", "kept", "share", "estimate"), rows, left=0)


def trace_curve(q_value: np.ndarray, cut_group: np.ndarray, n_right: float | None = None) -> Curve:
    """Return the curve of samples that are kept from their `q_value` on.

    `n_right` is how many labels are right, where there is an estimate of it.
    """
    n_rows = len(q_value)
    own, place, count = _steps(q_value, cut_group)
    first = np.searchsorted(place, place)
    before = np.cumsum(count) - count
    # A cut group's expected wrong ones grow, with each level, from rank x level to the next.
    rank = before + count - before[first]
    expected = rank * own
    expected -= np.where(np.arange(len(own)) > first, np.append(0.0, expected[:-1]), 0.0)
    merged = np.argsort(own, kind="stable")
    levels = own[merged]
    # Samples of one level are kept together, whatever their group.
    last = np.searchsorted(levels, np.unique(levels), side="right") - 1
    wrong, n_kept = np.cumsum(expected[merged])[last], np.cumsum(count[merged])[last]
    fsr = np.minimum(wrong / n_kept, levels[last])
    # F1 = 2 TP / (kept + right), with TP = kept (1 - FSR).
    return Curve(
        q=levels[last],
        n_kept=n_kept,
        share_kept=n_kept / n_rows,
        estimated_fsr=fsr,
        estimated_f1=None if n_right is None else 2 * n_kept * (1 - fsr) / (n_kept + n_right),
    )


def _steps(q_value: np.ndarray, cut_group: np.ndarray) -> Steps:
    """Return the different pairs of a level and a cut group, in order, and how many rows each has.

    Pairs are in the order of the groups, then of the levels.
    """
    reached = np.isfinite(q_value)
    level, group = q_value[reached], cut_group[reached]
    order = np.lexsort((level, group))
    level, group = level[order], group[order]
    new = np.append(True, (level[1:] != level[:-1]) | (group[1:] != group[:-1]))[: len(level)]
    first = np.flatnonzero(new)
    return level[first], group[first], np.diff(np.append(first, len(level)))


def at_best_f1(selection: "Selection", q: float) -> "Selection":
    """Return the selection at the level of its greatest estimated F1; at `q` if there is none."""
    best = selection.curve().best_f1_level
    chosen = selection.at(q if best is None else float(np.clip(best, *_LEVEL_ENDS)))
    # `at` has recorded the level as "fixed".
    parameters = {**chosen.manifest.parameters, "level": "f1"}
    return replace(chosen, manifest=replace(chosen.manifest, parameters=parameters))
