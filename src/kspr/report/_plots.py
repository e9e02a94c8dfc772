"""Figures of the page: histograms of the statistic with its cut-offs, and a solution path."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.ticker import MaxNLocator

from kspr._figures import ACCENT, INK, KEPT, MUTED, canvas, style, to_svg
from kspr.core.arrays import to_numpy
from kspr.core.coded import class_sizes, row_ranges, rows_of
from kspr.core.labels import stored_codes
from kspr.core.regression import gamma_path
from kspr.report._words import name, scale_of
from kspr.selectors.feature_rows import as_features
from kspr.selectors.options import DOUBTING
from kspr.selectors.selection import Selection

__all__ = [
    "ClassFigure",
    "class_histograms",
    "histogram",
    "path_figure",
    "path_rows",
    "solve_path",
]

MAX_CLASSES = 12
"""Classes with a histogram of their own."""
PATH_CLASSES = 10
ROWS_PER_CLASS = 12
STEPS = 40
"""Classes, rows of each class and penalty levels of the solution path."""


@dataclass(frozen=True)
class ClassFigure:
    """The histogram of one class."""

    label: str
    svg: Markup


def histogram(selection: Selection) -> Markup:
    """Draw the statistic of all rows, with the range of the cut-offs."""
    with style():
        figure, axes = canvas(390, 240)
        cut_groups = np.arange(len(selection.cut_groups))
        edges = _edges(selection, 60)
        both, kept = _counted(selection, edges)
        _bars(axes, selection, both.sum(axis=0), kept.sum(axis=0), cut_groups, edges)
        axes.set_ylabel("rows")
        scale = scale_of(selection)
        axes.set_xlabel(scale.axis)
        if scale.direction < 0:
            axes.axvline(0, color=MUTED, linewidth=0.8, linestyle=(0, (2, 3)))
        return to_svg(figure, "histogram", "Histogram of the statistic, kept rows and suspects")


def class_histograms(selection: Selection) -> list[ClassFigure]:
    """Draw a small histogram for each class, or for the classes with most suspects if many."""
    codes = stored_codes(selection, "label")
    suspects = class_sizes(codes, len(selection.classes), ~selection.clean_mask)
    shown = np.sort(np.argsort(-suspects, kind="stable")[:MAX_CLASSES])
    edges = _edges(selection, 30)
    both, kept = _counted(selection, edges)
    drawn = []
    with style():
        for k in shown.tolist():
            figure, axes = canvas(160, 90)
            own = class_sizes(selection.cut_group, len(selection.cut_groups), codes == k)
            _bars(axes, selection, both[k], kept[k], np.flatnonzero(own), edges)
            axes.set_yticks([])
            axes.xaxis.set_major_locator(MaxNLocator(3))
            label = name(selection.classes[k])
            drawn.append(ClassFigure(label, to_svg(figure, f"class{k}", f"Histogram of {label}")))
    return drawn


def _edges(selection: Selection, bins: int) -> np.ndarray:
    """Return edges of bins for nearly all rows; the few beyond count in the first and last bin."""
    if selection.control in DOUBTING:
        return np.linspace(0.0, 1.0, bins + 1)
    low, high = np.quantile(selection.statistic, [0.001, 0.999])
    # Cut-offs are in view too, but one far out must not squeeze all rows into one bin.
    far = 0.25 * (high - low)
    ends = np.clip(
        scale_of(selection).direction * selection.cut_groups.cutoff, low - far, high + far
    )
    low, high = min(low, ends.min()), max(high, ends.max())
    # Bins need a width, even where all statistics are equal.
    return np.linspace(low, max(high, low + 1e-9), bins + 1)


def _counted(selection: Selection, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how many rows, and how many kept ones, each class has in every bin."""
    codes, n_bins = stored_codes(selection, "label"), len(edges) - 1
    both = np.zeros(len(selection.classes) * n_bins, dtype=np.int64)
    kept = np.zeros_like(both)
    for part in row_ranges(len(codes)):
        # Rows beyond the edges count in the outer bins, so that no row is missing.
        inside = np.clip(rows_of(selection, "statistic", part), edges[0], edges[-1])
        # The last bin has its right edge too, as for np.histogram.
        place = np.minimum(np.searchsorted(edges, inside, side="right") - 1, n_bins - 1)
        place += codes[part].astype(np.int64) * n_bins
        both += np.bincount(place, minlength=len(both))
        kept += np.bincount(place[selection.clean_mask[part]], minlength=len(both))
    return both.reshape(-1, n_bins), kept.reshape(-1, n_bins)


def _bars(
    axes: Axes,
    selection: Selection,
    both: np.ndarray,
    kept: np.ndarray,
    cut_groups: np.ndarray,
    edges: np.ndarray,
) -> None:
    # `both` includes the kept rows: the suspects stand on top of them.
    axes.stairs(both, edges, baseline=kept, fill=True, color=ACCENT, alpha=0.85, linewidth=0)
    axes.stairs(kept, edges, fill=True, color=KEPT, alpha=0.75, linewidth=0)
    cutoffs = selection.cut_groups.cutoff[cut_groups]
    cutoffs = cutoffs[cutoffs > 0]
    if cutoffs.size:
        ends = scale_of(selection).direction * np.array([cutoffs.min(), cutoffs.max()])
        ends = np.clip(ends, *edges[[0, -1]])
        axes.axvspan(ends.min(), ends.max(), color=INK, alpha=0.1, linewidth=0)
        for end in np.unique(ends):
            axes.axvline(end, color=INK, linewidth=1)
    axes.margins(x=0.01)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))


def path_figure(selection: Selection, features: Any) -> Markup:
    """Draw the norms of mean shifts of a small piece against the falling penalty (Fig. 2)."""
    rows = path_rows(selection)
    lams, norms = solve_path(selection, features, rows)
    kept = selection.clean_mask[rows]
    with style():
        figure, axes = canvas(390, 260)
        for mask, colour, alpha in ((kept, KEPT, 0.55), (~kept, ACCENT, 0.75)):
            lines = [_visible(lams, norm) for norm in norms[:, mask].T]
            axes.add_collection(
                LineCollection(lines, colors=colour, linewidths=0.9, alpha=alpha, capstyle="round")
            )
        # From left to right the penalty falls: what stands out most enters first.
        axes.set_xlim(lams.max(), 0)
        axes.set_ylim(0, 1.03 * norms.max(initial=1e-9))
        axes.set_xlabel("penalty λ, falling")
        axes.set_ylabel("size of the mean shift")
        return to_svg(figure, "path", "Solution path of a small piece: suspects enter first")


def path_rows(selection: Selection) -> np.ndarray:
    """Return rows of a small balanced piece, spread evenly over all selection times.

    Its classes are those with most suspects.
    """
    codes = stored_codes(selection, "label")
    suspects = class_sizes(codes, len(selection.classes), ~selection.clean_mask)
    chosen = np.argsort(-suspects, kind="stable")[:PATH_CLASSES]
    picked = []
    for k in chosen.tolist():
        rows = np.flatnonzero(codes == k)
        order = np.argsort(selection.selection_time[rows], kind="stable")
        # Evenly over the order, so that early and late rows are both seen.
        take = np.linspace(0, len(rows) - 1, min(ROWS_PER_CLASS, len(rows)))
        picked.append(rows[order[np.unique(take.astype(int))]])
    return np.sort(np.concatenate(picked))


def solve_path(
    selection: Selection, features: Any, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return falling penalty levels, and the norm of every row's mean shift at each level."""
    if hasattr(features, "to_numpy"):
        features = features.to_numpy()
    X = to_numpy(as_features(features).take(rows)).astype(np.float64)
    classes, labels = np.unique(stored_codes(selection, "label")[rows], return_inverse=True)
    # PCA, which gives X full column rank, so that beta is identifiable (as in the paper).
    X = X - X.mean(axis=0)
    left, scale, _ = np.linalg.svd(X, full_matrices=False)
    X = (left * scale)[:, : len(classes)]
    # (rows, classes); `gamma_path` returns (levels, rows, classes).
    Y = np.eye(len(classes))[labels]
    # Residuals of one-hot rows seldom exceed sqrt(2); levels at which all are zero are cut below.
    lams = np.linspace(1.4, 0.02, STEPS)
    norms = np.linalg.norm(gamma_path(X, Y, lams, intercept=True, tol=1e-5), axis=2)
    # One level at which every shift is zero stays, so that lines begin on the axis.
    first = max(0, int(np.argmax(norms.max(axis=1) > 0)) - 1)
    return lams[first:], norms[first:]


def _visible(lams: np.ndarray, norm: np.ndarray) -> np.ndarray:
    """Return the points of a line from the last zero on."""
    first = max(0, int(np.argmax(norm > 0)) - 1)
    return np.column_stack([lams[first:], norm[first:]])
