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
from kspr.core.regression import gamma_path
from kspr.report._facts import label_codes
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
        _bars(
            axes, selection, np.ones(len(selection), dtype=bool), cut_groups, _edges(selection, 60)
        )
        axes.set_ylabel("rows")
        scale = scale_of(selection)
        axes.set_xlabel(scale.axis)
        if scale.direction < 0:
            axes.axvline(0, color=MUTED, linewidth=0.8, linestyle=(0, (2, 3)))
        return to_svg(figure, "histogram", "Histogram of the statistic, kept rows and suspects")


def class_histograms(selection: Selection) -> list[ClassFigure]:
    """Draw a small histogram for each class, or for the classes with most suspects if many."""
    codes = label_codes(selection, selection.label)
    n_classes = len(selection.classes)
    suspects = np.bincount(codes[~selection.clean_mask], minlength=n_classes)
    shown = np.sort(np.argsort(-suspects, kind="stable")[:MAX_CLASSES])
    edges = _edges(selection, 30)
    drawn = []
    with style():
        for k in shown.tolist():
            figure, axes = canvas(160, 90)
            rows = codes == k
            _bars(axes, selection, rows, np.unique(selection.cut_group[rows]), edges)
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


def _bars(
    axes: Axes, selection: Selection, rows: np.ndarray, cut_groups: np.ndarray, edges: np.ndarray
) -> None:
    # Rows beyond the edges count in the outer bins, so that no row is missing.
    inside = np.clip(selection.statistic, edges[0], edges[-1])
    kept, _ = np.histogram(inside[rows & selection.clean_mask], edges)
    both, _ = np.histogram(inside[rows], edges)
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
    codes = label_codes(selection, selection.label)
    suspects = np.bincount(codes[~selection.clean_mask], minlength=len(selection.classes))
    chosen = np.argsort(-suspects, kind="stable")[:PATH_CLASSES]
    picked = []
    for k in chosen.tolist():
        rows = np.flatnonzero(codes == k)
        rows = rows[np.argsort(selection.selection_time[rows], kind="stable")]
        # Evenly over the order, so that early and late rows are both seen.
        take = np.linspace(0, len(rows) - 1, min(ROWS_PER_CLASS, len(rows)))
        picked.append(rows[np.unique(take.astype(int))])
    return np.sort(np.concatenate(picked))


def solve_path(
    selection: Selection, features: Any, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return falling penalty levels, and the norm of every row's mean shift at each level."""
    if hasattr(features, "to_numpy"):
        features = features.to_numpy()
    X = to_numpy(as_features(features).take(rows)).astype(np.float64)
    classes, labels = np.unique(label_codes(selection, selection.label[rows]), return_inverse=True)
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
