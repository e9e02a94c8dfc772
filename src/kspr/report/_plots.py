"""Figures of the page: histograms of the statistic, a solution path, and what other q keep."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.ticker import MaxNLocator

from kspr._figures import ACCENT, INK, KEPT, LINE, MUTED, PAPER, canvas, style, to_svg
from kspr.core.labels import truly_clean
from kspr.core.paper.selection_times import gamma_path
from kspr.report._words import level, name, scale_of, statistic_of
from kspr.selectors.options import DOUBTING
from kspr.selectors.parts import HostFeatures
from kspr.selectors.selection import Selection

LEVELS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
"""Levels of the dial."""
_POINTS = 200
"""Largest number of points of the dial's curve."""
MAX_CLASSES = 12
"""Classes with a histogram of their own."""
PATH_CLASSES = 10
ROWS_PER_CLASS = 12
STEPS = 40
"""Classes, rows of each class and penalty levels of the solution path."""


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


def class_histograms(selection: Selection) -> list[tuple[str, Markup]]:
    """Draw a small histogram for each class, or for the classes with most suspects if many.

    Each comes with the name of its class.
    """
    codes = selection.label_code
    shown = np.sort(_most_suspect(selection, codes)[:MAX_CLASSES])
    edges = _edges(selection, 30)
    both, kept = _counted(selection, edges)
    drawn = []
    with style():
        for k in shown.tolist():
            figure, axes = canvas(160, 90)
            cut_groups = np.unique(selection.cut_group[codes == k])
            _bars(axes, selection, both[k], kept[k], cut_groups, edges)
            axes.set_yticks([])
            axes.xaxis.set_major_locator(MaxNLocator(3))
            label = name(selection.classes[k])
            drawn.append((label, to_svg(figure, f"class{k}", f"Histogram of {label}")))
    return drawn


def _most_suspect(selection: Selection, codes: np.ndarray) -> np.ndarray:
    """Return the classes, those with most suspects first."""
    suspects = np.bincount(codes[~selection.clean_mask], minlength=len(selection.classes))
    return np.argsort(-suspects, kind="stable")


def _edges(selection: Selection, bins: int) -> np.ndarray:
    """Return edges of bins for nearly all rows; the few beyond count in the first and last bin."""
    if selection.control in DOUBTING:
        return np.linspace(0.0, 1.0, bins + 1)
    low, high = np.quantile(statistic_of(selection), [0.001, 0.999])
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
    codes, kept = selection.label_code, selection.clean_mask
    # Rows beyond the edges count in the outer bins, so that no row is missing.
    inside = np.clip(statistic_of(selection), edges[0], edges[-1])
    bins = (np.arange(len(selection.classes) + 1), edges)
    both, of_kept = (
        np.histogram2d(codes[rows], inside[rows], bins)[0] for rows in (slice(None), kept)
    )
    return both, of_kept


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
    codes = selection.label_code
    picked = []
    for k in _most_suspect(selection, codes)[:PATH_CLASSES].tolist():
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
    X = HostFeatures(features).take(rows).astype(np.float64)
    classes, labels = np.unique(selection.label_code[rows], return_inverse=True)
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


@dataclass(frozen=True)
class DialStep:
    """What one fixed level of q would keep."""

    q: float
    n_kept: int
    share: float
    estimate: float
    n_empty: int
    """Cut groups that keep nothing at this level."""
    measured: float | None
    """Share of wrong labels among the kept ones, by the given true labels."""


def dial(selection: Selection, truth: np.ndarray | None) -> list[DialStep]:
    """Return what each level of a grid, and the level asked for, would keep."""
    asked = selection.cut_groups.q_asked[np.isfinite(selection.cut_groups.q_asked)]
    levels = sorted({*LEVELS, *asked[:1].tolist()})
    right = None if truth is None else truly_clean(selection.label, truth)
    steps = []
    for q in levels:
        other = selection.at(q)
        n_kept = int(other.clean_mask.sum())
        wrong = None
        if right is not None and n_kept:
            wrong = float((~right[other.clean_mask]).mean())
        steps.append(
            DialStep(
                q=q,
                n_kept=n_kept,
                share=n_kept / len(other),
                estimate=pooled_estimate(other),
                n_empty=int((other.cut_groups.status == "empty").sum()),
                measured=wrong,
            )
        )
    return steps


def dial_figure(selection: Selection, truth: np.ndarray | None) -> Markup:
    """Draw the estimated FSR against the share kept at all levels; mark this selection."""
    curve = selection.curve()
    # Beyond half of the labels wrong, a level is of no use and would squeeze the rest.
    n = int(np.searchsorted(curve.q, LEVELS[-1], side="right"))
    point = np.unique(np.linspace(0, n - 1, min(n, _POINTS)).astype(int))
    share = curve.share_kept[point]
    with style():
        figure, axes = canvas(390, 240)
        # One level alone has no line; without a marker its point would be invisible.
        dot = "o" if len(point) == 1 else ""
        axes.plot(share, curve.estimated_fsr[point], color=KEPT, linewidth=2, marker=dot, ms=3)
        if truth is not None:
            # A level keeps the first `n_kept` rows by rising q, and entry n - 1 is for n rows.
            measured = _measured(selection, truth)[curve.n_kept[point] - 1]
            axes.plot(
                share, measured, color=MUTED, linewidth=1.4, linestyle=(0, (4, 3)), clip_on=False
            )
        _mark(axes, selection, share.tolist())
        axes.set_xlabel("share of rows kept")
        axes.set_ylabel("wrong among them")
        axes.grid(axis="y", color=LINE, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.set_ylim(bottom=0)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(lambda value, _: level(value))
            axis.set_major_locator(MaxNLocator(5))
        return to_svg(figure, "dial", "Estimated error rate against the share of rows kept")


def _measured(selection: Selection, truth: np.ndarray) -> np.ndarray:
    """Return the share of wrong labels among the first 1, 2, ... rows, by rising q."""
    assert selection.q_value is not None  # noqa: S101 - only selections with levels have a curve
    order = np.argsort(selection.q_value, kind="stable")
    wrong = ~truly_clean(selection.label, truth)[order]
    return np.asarray(np.cumsum(wrong) / np.arange(1, len(wrong) + 1))


def _mark(axes: Axes, selection: Selection, shares: list[float]) -> None:
    """Mark the selection on the curve, if it has an estimate."""
    now = (float(selection.clean_mask.mean()), pooled_estimate(selection))
    if not np.isfinite(now[1]):
        return
    # The name goes to the side with more room.
    right = now[0] > np.mean([min(shares, default=0), max(shares, default=1)])
    axes.plot(*now, "o", color=ACCENT, ms=8, markeredgecolor=PAPER, zorder=5, clip_on=False)
    axes.annotate(
        "this selection",
        now,
        (-8, 8) if right else (8, -14),
        textcoords="offset points",
        color=ACCENT,
        ha="right" if right else "left",
        weight="bold",
    )


def pooled_estimate(selection: Selection) -> float:
    """Return the estimated FSR over all cut groups with one, weighted by their kept rows."""
    cut_groups = selection.cut_groups
    # np.average raises an error where all weights are zero.
    known = np.isfinite(cut_groups.estimated_fsr) & (cut_groups.n_kept > 0)
    if not known.any():
        return float("nan")
    return float(np.average(cut_groups.estimated_fsr[known], weights=cut_groups.n_kept[known]))
