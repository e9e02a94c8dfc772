"""Every level at once: how much it keeps, and its estimated error rate."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kspr._text import text_table
from kspr.selectors.coded import changed

if TYPE_CHECKING:
    from kspr.selectors.selection import Selection

__all__ = ["Curve", "at_best_f1", "best_level", "trace_curve"]

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
    reached = np.flatnonzero(np.isfinite(q_value))
    order = reached[np.lexsort((q_value[reached], cut_group[reached]))]
    own, place = q_value[order], cut_group[order]
    first = np.searchsorted(place, place)
    # A cut group's expected wrong ones grow, with each sample, from rank x level to the next.
    rank = np.arange(len(order)) - first + 1
    expected = rank * own
    before = np.where(rank > 1, np.concatenate([[0.0], expected[:-1]]), 0.0)
    merged = np.argsort(own, kind="stable")
    levels = own[merged]
    wrong = np.cumsum((expected - before)[merged])
    # Samples of one level are kept together, so only the last of them is a point of the curve.
    last = np.searchsorted(levels, np.unique(levels), side="right") - 1
    n_kept = last + 1
    fsr = np.minimum(wrong[last] / n_kept, levels[last])
    # F1 = 2 TP / (kept + right), with TP = kept (1 - FSR).
    return Curve(
        q=levels[last],
        n_kept=n_kept,
        share_kept=n_kept / len(q_value),
        estimated_fsr=fsr,
        estimated_f1=None if n_right is None else 2 * n_kept * (1 - fsr) / (n_kept + n_right),
    )


def best_level(
    level: np.ndarray, group: np.ndarray, count: np.ndarray, n_right: float, *, at_least: float
) -> float:
    """Return the level with the greatest estimated F1, of rows that are counted and not listed.

    `count` rows of a cut group have each `level`. As for `at_best_f1`, the level is one that
    `Selection.at` takes; `at_least` where there are no rows.
    """
    there = np.flatnonzero(count)
    if not len(there):
        return at_least
    order = there[np.lexsort((level[there], group[there]))]
    own, place, count = level[order], group[order], count[order]
    # Rows of a group that have one level are one step.
    new = np.append(True, (own[1:] != own[:-1]) | (place[1:] != place[:-1]))
    first = np.flatnonzero(new)
    own, place, count = own[first], place[first], np.add.reduceat(count, first)
    start = np.searchsorted(place, place)
    before = np.cumsum(count) - count
    expected = (before + count - before[start]) * own
    expected -= np.where(np.arange(len(own)) > start, np.append(0.0, expected[:-1]), 0.0)
    merged = np.argsort(own, kind="stable")
    levels = own[merged]
    last = np.searchsorted(levels, np.unique(levels), side="right") - 1
    wrong, n_kept = np.cumsum(expected[merged])[last], np.cumsum(count[merged])[last]
    fsr = np.minimum(wrong / n_kept, levels[last])
    f1 = 2 * n_kept * (1 - fsr) / (n_kept + n_right)
    return float(np.clip(levels[last][f1.argmax()], *_LEVEL_ENDS))


def at_best_f1(selection: "Selection", q: float) -> "Selection":
    """Return the selection at the level of its greatest estimated F1; at `q` if there is none."""
    best = selection.curve().best_f1_level
    chosen = selection.at(q if best is None else float(np.clip(best, *_LEVEL_ENDS)))
    # `at` has recorded the level as "fixed".
    parameters = {**chosen.manifest.parameters, "level": "f1"}
    return changed(chosen, manifest=replace(chosen.manifest, parameters=parameters))
